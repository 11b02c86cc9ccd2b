# The nemesis and its workers.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
add_library(proof_worker STATIC
  stall.c
  naive.c
  redispy.c
  worker.c
  worker_attend.c
  worker_board.c
  worker_call.c
  worker_command.c
  worker_race.c
  worker_section.c
  worker_sneck.c
  worker_turn.c
)
target_compile_definitions(proof_worker PRIVATE PROOF_COMMAND="$<TARGET_FILE:sneck_command>")
target_link_libraries(proof_worker PUBLIC sneck_proof sneck_testable PRIVATE sneck_flags)
add_dependencies(proof_worker sneck_command)

add_executable(sneck-worker worker_main.c)
target_link_libraries(sneck-worker PRIVATE proof_worker sneck_flags)

# An allocator that can be told to fail, for workers. Sanitizers have their own.
add_library(fault_alloc MODULE fault_alloc.c)
set_target_properties(fault_alloc PROPERTIES PREFIX "")
target_compile_options(fault_alloc PRIVATE -Wall -Wextra -Werror)

# For the servers.
add_library(no_sync MODULE no_sync.c)
set_target_properties(no_sync PROPERTIES PREFIX "")
target_compile_options(no_sync PRIVATE -Wall -Wextra -Werror)

add_executable(sneck-nemesis
  driver_main.c
  control.c
  driver_cancel.c
  driver_groups.c
  driver_left.c
  driver_mixed.c
  driver_result.c
  driver_rig.c
  fault.c
  fault_cluster.c
  fault_host.c
  fault_process.c
  fault_proxy.c
  fault_sentinel.c
  fault_server.c
  network.c
  site.c
  stall.c
  worker_board.c
)
if(SNECK_SANITIZE)
  set(can_fail_memory 0)
else()
  set(can_fail_memory 1)
endif()
set(once_programs "")
foreach(program test_once_acquire test_once_release test_once_convert test_once_error)
  list(APPEND once_programs "\"$<TARGET_FILE:${program}>\"")
  add_dependencies(sneck-nemesis ${program})
endforeach()
list(JOIN once_programs "," once_programs)
target_include_directories(sneck-nemesis PRIVATE ${PROJECT_SOURCE_DIR}/tests/fault)
target_compile_definitions(sneck-nemesis PRIVATE
  PROOF_SOURCE="${PROJECT_SOURCE_DIR}"
  PROOF_WORKER="$<TARGET_FILE:sneck-worker>"
  PROOF_FALSE_CLOCK="$<TARGET_FILE:false_clock>"
  PROOF_NO_SYNC="$<TARGET_FILE:no_sync>"
  PROOF_FAULT_ALLOC="$<TARGET_FILE:fault_alloc>"
  PROOF_CAN_FAIL_MEMORY=${can_fail_memory}
  PROOF_ONCE_PROGRAMS=${once_programs})
target_link_libraries(sneck-nemesis PRIVATE sneck_proof sneck_testlib sneck_testable sneck_flags PkgConfig::CMOCKA)
add_dependencies(sneck-nemesis sneck-worker false_clock fault_alloc no_sync)

add_test(NAME nemesis COMMAND ${PROJECT_SOURCE_DIR}/tests/fault/check_nemesis.sh $<TARGET_FILE:sneck-nemesis>)
set_tests_properties(nemesis PROPERTIES TIMEOUT 120 COST 180 LABELS "fault")
