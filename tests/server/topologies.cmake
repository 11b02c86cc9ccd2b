# The lock conformance suite: programs that run unchanged wherever locks can live. What they are run with is in
# tests/lib/topology.h; what concerns one connection, or one server's details, is in other programs, or in
# tests of these that are marked TEST_PLAIN.
#
# Each copy is called PROGRAM@TOPOLOGY, or PROGRAM@TOPOLOGY/DIALECT, and logs in as a user with the rights that
# `sneck acl` prints for its roles. Label `topology`: make topologies runs all of them, make test none; label
# `topology-ci` as well: those that CI runs.
set(topologies single tls sentinel sentinel-tls cluster cluster-tls)

set(holder_suite test_mutex test_crowd test_rw test_upgrade test_queue test_leases test_owners test_async test_fork test_processes
  test_documents test_manners test_scenarios test_scenarios_queue test_scenarios_readers)
# Whoever looks and breaks needs more rights.
set(operator_suite test_break test_grace test_detached test_inspect test_list test_record)
# In CI, the native dialect everywhere: what each program is about, and little waiting for time to pass; and each other dialect
# on one topology.
set(ci_suite test_mutex test_rw test_upgrade test_queue test_async test_break test_detached test_inspect test_list)
set(ci_dialects test_layouts@tls/counted test_layouts@sentinel/intent test_layouts@cluster/redisson:rwlock
  test_layouts@cluster-tls/redisson:lock test_layouts@tls/redisson:fair test_layouts@sentinel-tls/redisson:fenced)

# What is true of all other layouts, on each; and what is true of one, in programs that choose it themselves.
set(dialects counted intent redisson:rwlock redisson:lock redisson:fair redisson:fenced)
set(redisson_roles "")
foreach(object rwlock lock fair fenced)
  string(APPEND redisson_roles " holder@redisson:${object} operator@redisson:${object}")
endforeach()

# sneck_on_topology(program topology roles [dialect])
function(sneck_on_topology program topology roles)
  set(name ${program}@${topology})
  set(environment "SNECK_TEST_TOPOLOGY=${topology}" "SNECK_TEST_ROLES=${roles}")
  set(labels topology)
  if(ARGN)
    string(APPEND name /${ARGV3})
    list(APPEND environment "SNECK_TEST_DIALECT=${ARGV3}")
  endif()
  if(program IN_LIST ci_suite OR name IN_LIST ci_dialects)
    list(APPEND labels topology-ci)
  endif()
  add_test(NAME ${name} COMMAND ${program})
  set_tests_properties(${name} PROPERTIES TIMEOUT 180 COST 100 LABELS "${labels}" ENVIRONMENT "${environment}")
endfunction()

foreach(topology ${topologies})
  foreach(program ${holder_suite})
    sneck_on_topology(${program} ${topology} holder)
  endforeach()
  foreach(program ${operator_suite})
    sneck_on_topology(${program} ${topology} "holder operator")
  endforeach()
  foreach(dialect ${dialects})
    sneck_on_topology(test_layouts ${topology} "holder operator" ${dialect})
  endforeach()
  sneck_on_topology(test_counted_api ${topology} "holder@counted operator@counted")
  sneck_on_topology(test_intent_api ${topology} "holder@intent operator@intent")
  sneck_on_topology(test_redisson_api ${topology} "${redisson_roles}")
endforeach()
