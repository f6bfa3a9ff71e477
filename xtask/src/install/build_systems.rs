//! What build systems find Toft by: pkg-config's files, which Meson reads too, and CMake's.

use super::{INTERFACE, VERSION};
use std::path::Path;

/// For `find_package(toft CONFIG)`. It finds the libraries from where it is itself, so that the
/// folder can be moved.
pub fn cmake(libdir: &str) -> String {
    let up = "/..".repeat(2 + libdir.split('/').count());
    CMAKE.replace("@LIBDIR@", libdir).replace("@UP@", &up)
}

const CMAKE: &str = r#"# Targets: toft::toft, toft::secure and toft::secure-light (shared), and toft::static,
# toft::secure-static and toft::secure-light-static.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
get_filename_component(_toft "${CMAKE_CURRENT_LIST_DIR}@UP@" ABSOLUTE)
foreach(_target IN ITEMS toft:SHARED:libtoft.so secure:SHARED:libtoft-secure.so
        secure-light:SHARED:libtoft-secure-light.so static:STATIC:libtoft.a
        secure-static:STATIC:libtoft-secure.a secure-light-static:STATIC:libtoft-secure-light.a)
    string(REPLACE ":" ";" _target "${_target}")
    list(GET _target 0 _name)
    list(GET _target 1 _kind)
    list(GET _target 2 _file)
    if(NOT TARGET toft::${_name})
        add_library(toft::${_name} ${_kind} IMPORTED)
        set_target_properties(toft::${_name} PROPERTIES
            IMPORTED_LOCATION "${_toft}/@LIBDIR@/${_file}"
            INTERFACE_INCLUDE_DIRECTORIES "${_toft}/include")
        if(_kind STREQUAL "STATIC")
            set_property(TARGET toft::${_name} PROPERTY INTERFACE_LINK_LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
        endif()
    endif()
endforeach()
"#;

/// Which requests that file answers: the version itself, and older ones of the same interface.
pub fn cmake_version() -> String {
    format!(
        r#"set(PACKAGE_VERSION "{VERSION}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION OR NOT "${{PACKAGE_FIND_VERSION_MAJOR}}" STREQUAL "{INTERFACE}")
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
    if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
        set(PACKAGE_VERSION_EXACT TRUE)
    endif()
endif()
"#
    )
}

/// A static program takes the archive, which needs what the C library has apart on older systems.
pub fn pkg_config(prefix: &Path, libdir: &str, name: &str, about: &str) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/{libdir}\nincludedir=${{prefix}}/include\n\n\
         Name: {name}\nDescription: {about}\nURL: {}\nVersion: {VERSION}\n\
         Libs: -L${{libdir}} -l{name}\nLibs.private: -lpthread -ldl\nCflags: -I${{includedir}}\n",
        prefix.display(),
        env!("CARGO_PKG_REPOSITORY"),
    )
}
