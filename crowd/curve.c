/* curve.c - when the users come. */
#include <math.h>

#include "crowd/crowd.h"

enum { WAVES = 3 };

double crowd_arrival(enum crowd_curve curve, uint32_t i, uint32_t n)
{
    double share = (double)i / (double)n;
    if (curve == CROWD_BURST)
        return 0;
    if (curve == CROWD_RAMP)
        return share;
    /* Swells: the sum of what came grows fastest in the middle of each. */
    double wave = floor(share * WAVES), inside = share * WAVES - wave;
    return (wave + acos(1 - 2 * inside) / M_PI) / WAVES;
}
