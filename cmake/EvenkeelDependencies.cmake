# Eigen and xsimd: the targets that exist already, else the installed packages, else pinned releases.
#
# A fetched release is used as a folder of headers: SOURCE_SUBDIR names a folder that does not exist, so that no
# CMakeLists.txt of theirs is run, and none of their tests, options and install rules come along. Imported targets are
# SYSTEM, and an install of evenkeel does not ask for them in an export set.
include(FetchContent)

# No version number: Eigen 5 refuses a request for 3.4 (same major version only).
if(NOT TARGET Eigen3::Eigen)
  find_package(Eigen3 CONFIG QUIET)
endif()
if(NOT TARGET Eigen3::Eigen)
  FetchContent_Declare(evenkeel_eigen
    GIT_REPOSITORY https://gitlab.com/libeigen/eigen.git GIT_TAG 3.4.0 GIT_SHALLOW ON SOURCE_SUBDIR headers-only)
  FetchContent_MakeAvailable(evenkeel_eigen)
  add_library(Eigen3::Eigen INTERFACE IMPORTED GLOBAL)
  target_include_directories(Eigen3::Eigen INTERFACE ${evenkeel_eigen_SOURCE_DIR})
endif()

if(NOT TARGET xsimd AND NOT TARGET evenkeel::xsimd)
  find_package(xsimd CONFIG QUIET)
endif()
if(NOT TARGET xsimd AND NOT TARGET evenkeel::xsimd)
  FetchContent_Declare(evenkeel_xsimd
    GIT_REPOSITORY https://github.com/xtensor-stack/xsimd.git GIT_TAG 13.2.0 GIT_SHALLOW ON SOURCE_SUBDIR headers-only)
  FetchContent_MakeAvailable(evenkeel_xsimd)
  add_library(evenkeel::xsimd INTERFACE IMPORTED GLOBAL)
  target_include_directories(evenkeel::xsimd INTERFACE ${evenkeel_xsimd_SOURCE_DIR}/include)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/EvenkeelXsimd.cmake)
