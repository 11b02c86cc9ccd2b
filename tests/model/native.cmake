# The native scripts under every turn of events: see explore_native.c for the longer forms. The plain
# test takes a new seed each time and prints it.
sneck_test(explore_native explore_native.c native_actor.c native_moves.c native_mutants.c native_server.c native_world.c
  LABEL model TIMEOUT 60)
add_test(NAME explore_native_exhaustive COMMAND explore_native --exhaustive --only lost-replies)
add_test(NAME explore_native_upgrade COMMAND explore_native --exhaustive --only upgrade)
set_tests_properties(explore_native_exhaustive explore_native_upgrade PROPERTIES TIMEOUT 120 COST 120 LABELS model)

# Minutes and more (late-messages alone has millions of states): ctest -C long.
add_test(NAME explore_native_mutants COMMAND explore_native --mutants --seconds 120 --seed 7 CONFIGURATIONS long)
add_test(NAME explore_native_all_orders COMMAND explore_native --exhaustive CONFIGURATIONS long)
set_tests_properties(explore_native_mutants explore_native_all_orders PROPERTIES TIMEOUT 7200 LABELS model)
