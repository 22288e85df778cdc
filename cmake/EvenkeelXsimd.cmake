# evenkeel::xsimd is the include directories of xsimd and nothing else: Debian's xsimd 8.1 links to xtl, which it does
# not find.
if(NOT TARGET evenkeel::xsimd)
  get_target_property(evenkeel_xsimd_include_dirs xsimd INTERFACE_INCLUDE_DIRECTORIES)
  add_library(evenkeel::xsimd INTERFACE IMPORTED GLOBAL)
  target_include_directories(evenkeel::xsimd INTERFACE ${evenkeel_xsimd_include_dirs})
endif()
