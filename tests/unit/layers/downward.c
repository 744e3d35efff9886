/* downward.c - compiles with the same flags as upward.c: what fails there is the layer, not the
 * flags. */
#include "runtime/fault.h"

int downward(void);
int downward(void)
{
    return RC_RETRY;
}
