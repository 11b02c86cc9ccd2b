# Turns the Lua files of a dialect into C: cmake -DDIALECT=native -DSOURCE_DIR=… -DOUTPUT_DIR=…
# -DSCRIPTS=acquire,beat,… -P EmbedScripts.cmake writes scripts.h (an enum, so that a script without
# a file is a compile error) and scripts.c (bytes, length and SHA-1 of each).
#
# A line `-- @include file.lua` is replaced by that file, once, not recursively: functions that
# several scripts share exist in one place, and a script is still one text with one digest.
cmake_minimum_required(VERSION 3.25)

string(REPLACE "," ";" scripts "${SCRIPTS}")
string(TOUPPER "${DIALECT}" upper)

# Semicolons, brackets and backslashes would not survive CMake's lists, so includes are found and
# replaced as text.
function(expand path ret_text)
  file(READ "${path}" text)
  string(REGEX MATCHALL "-- @include [A-Za-z0-9_/]+\\.lua\n" includes "${text}")
  foreach(line IN LISTS includes)
    string(REGEX REPLACE "-- @include ([A-Za-z0-9_/]+\\.lua)\n" "\\1" file "${line}")
    file(READ "${SOURCE_DIR}/${file}" part)
    string(REPLACE "${line}" "${part}" text "${text}")
  endforeach()
  if(text MATCHES "@include")
    message(FATAL_ERROR "${path}: an @include that cannot be read, or inside an included file")
  endif()
  set(${ret_text} "${text}" PARENT_SCOPE)
endfunction()

set(ids "")
set(arrays "")
set(rows "")
foreach(script IN LISTS scripts)
  expand("${SOURCE_DIR}/${script}.lua" text)
  set(expanded "${OUTPUT_DIR}/${script}.lua")
  file(WRITE "${expanded}" "${text}")
  file(READ "${expanded}" hex HEX)
  file(SHA1 "${expanded}" sha1)
  file(SIZE "${expanded}" size)
  string(REGEX REPLACE "(................................)" "\\1\n\t" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(TOUPPER "${script}" id)
  string(APPEND ids "\t${upper}_${id},\n")
  string(APPEND arrays "static const unsigned char ${script}_lua[] = {\n\t${hex}\n};\n\n")
  string(APPEND rows "\t[${upper}_${id}] = { \"${script}\", ${script}_lua, ${size}, \"${sha1}\" },\n")
endforeach()

set(notice "/* SPDX-License-Identifier: MIT */\n/* Generated from the .lua files by EmbedScripts.cmake. */\n")
set(guard "SNECK_DIALECT_${upper}_SCRIPTS_H")
file(CONFIGURE OUTPUT "${OUTPUT_DIR}/scripts.h" @ONLY CONTENT "@notice@#ifndef @guard@
#define @guard@

#include \"dialect/script.h\"

enum @DIALECT@_script {
@ids@	@upper@_SCRIPTS
};

extern const struct script snecki_@DIALECT@_scripts[@upper@_SCRIPTS];

#endif
")
file(CONFIGURE OUTPUT "${OUTPUT_DIR}/scripts.c" @ONLY CONTENT "@notice@#include \"dialect/@DIALECT@/scripts.h\"

@arrays@const struct script snecki_@DIALECT@_scripts[@upper@_SCRIPTS] = {
@rows@};
")
