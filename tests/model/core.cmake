# The lock core without sockets and clocks: random sequences of events in virtual time.
sneck_test(test_core_random test_core_random.c sim_check.c sim_id.c sim_lists.c sim_program.c sim_server.c sim_world.c
  LABEL model TIMEOUT 240)
target_link_options(test_core_random PRIVATE LINKER:--wrap=calloc)
