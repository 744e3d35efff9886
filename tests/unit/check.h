/* check.h - what every cmocka test includes, in the order cmocka wants. */
#ifndef CHECK_H
#define CHECK_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#endif
