# Warnings are errors; hardening is always on. An interface target, so that third-party sources
# (llhttp) can be built without it.
add_library(urr_flags INTERFACE)
target_compile_definitions(urr_flags INTERFACE _GNU_SOURCE)
target_compile_options(urr_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
    -fstack-protector-strong -fno-omit-frame-pointer
    # Hidden: or a function of ours would take the place of a namesake inside a shared library
    # (json_object() in libjansson, which libjwt calls).
    -fvisibility=hidden>)
target_link_options(urr_flags INTERFACE -Wl,--as-needed)

if(URR_ASAN)
    set(urr_sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(URR_TSAN)
    set(urr_sanitize -fsanitize=thread)
elseif(URR_FUZZ)
    set(urr_sanitize -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all)
else()
    # _FORTIFY_SOURCE needs optimisation and gets in the sanitizers' way.
    target_compile_options(urr_flags INTERFACE
        $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
    target_link_options(urr_flags INTERFACE -Wl,-z,relro,-z,now -pie)
endif()
if(urr_sanitize)
    # gcc sees cut text (which fault.c means to cut) only through the sanitizers' instrumentation.
    target_compile_options(urr_flags INTERFACE $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
    add_compile_options(${urr_sanitize})
    add_link_options(${urr_sanitize})
endif()
if(URR_TEST_HOOKS)
    target_compile_definitions(urr_flags INTERFACE URR_TEST_HOOKS=1)
endif()
