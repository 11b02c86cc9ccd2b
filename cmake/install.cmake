# What `make install` puts where: headers, both libraries, the command, the pkg-config file, the CMake
# package (targets sneck::sneck and sneck::sneck_static), the manual and completion for shells.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sneck)

install(DIRECTORY include/sneck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS sneck_shared sneck_static sneck_command EXPORT sneckTargets)
install(EXPORT sneckTargets NAMESPACE sneck:: DESTINATION ${package_dir})

configure_package_config_file(cmake/sneckConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/sneckConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/sneckConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sneckConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/sneckConfigVersion.cmake
  DESTINATION ${package_dir})

# The prefix in the file follows from where the file is, so an installed tree may be moved.
file(RELATIVE_PATH pc_prefix /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
configure_file(cmake/sneck.pc.in ${CMAKE_CURRENT_BINARY_DIR}/sneck.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sneck.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES docs/man/sneck.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES docs/man/libsneck.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
install(FILES docs/man/sneck-guarantees.7 docs/man/sneck-protocol.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)

# Completion, printed by the command itself.
set(completion_dir ${CMAKE_CURRENT_BINARY_DIR}/completion)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${completion_dir}/sneck.${shell} DEPENDS sneck_command
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completion_dir}
    COMMAND sneck_command completion ${shell} > ${completion_dir}/sneck.${shell} VERBATIM)
  list(APPEND completions ${completion_dir}/sneck.${shell})
endforeach()
add_custom_target(sneck_completion ALL DEPENDS ${completions})
install(FILES ${completion_dir}/sneck.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME sneck)
install(FILES ${completion_dir}/sneck.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _sneck)
install(FILES ${completion_dir}/sneck.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
