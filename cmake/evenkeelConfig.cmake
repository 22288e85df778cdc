include(CMakeFindDependencyMacro)

# No version number: Eigen 5 refuses a request for 3.4 (same major version only).
if(NOT TARGET Eigen3::Eigen)
  find_dependency(Eigen3 CONFIG)
endif()
if(NOT TARGET xsimd AND NOT TARGET evenkeel::xsimd)
  find_dependency(xsimd CONFIG)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/EvenkeelXsimd.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/evenkeelTargets.cmake)
