/* histogram.c - cells of growing width: 64 per power of two. */
#include "runtime/histogram.h"

/* Below 64 a value is its own cell; above, the top six bits after the leading one choose it. */
static int64_t cell_of(int64_t value)
{
    if (value < HISTOGRAM_SUB)
        return value;
    int top = 63 - __builtin_clzll((unsigned long long)value);
    int shift = top - 6;
    return (int64_t)(shift + 1) * HISTOGRAM_SUB + ((value >> shift) & (HISTOGRAM_SUB - 1));
}

/* The largest value that falls into the cell. */
static int64_t cell_end(int64_t cell)
{
    if (cell < HISTOGRAM_SUB)
        return cell;
    int64_t shift = cell / HISTOGRAM_SUB - 1;
    return (((cell % HISTOGRAM_SUB) + HISTOGRAM_SUB + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, int64_t value)
{
    if (value < 0)
        value = 0;
    if (value > HISTOGRAM_MAX)
        value = HISTOGRAM_MAX;
    h->cells[cell_of(value)]++;
    h->count++;
    h->sum += value;
    if (value > h->max)
        h->max = value;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (int64_t i = 0; i < HISTOGRAM_CELLS; i++)
        into->cells[i] += from->cells[i];
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max)
        into->max = from->max;
}

int64_t histogram_percentile(const struct histogram *h, double percent)
{
    double wanted = (double)h->count * percent / 100.0;
    double seen = 0;
    for (int64_t i = 0; i < HISTOGRAM_CELLS; i++) {
        seen += (double)h->cells[i];
        if (h->cells[i] && seen >= wanted)
            return cell_end(i) < h->max ? cell_end(i) : h->max;
    }
    return h->max;
}

double histogram_mean(const struct histogram *h)
{
    return h->count ? (double)h->sum / (double)h->count : 0;
}
