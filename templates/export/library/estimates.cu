/*# Times of kernels as sums of what parts of a product cost, compared where sizes vary in more than one way. #*/
// What parts of a product cost a kernel, in microseconds. It divides C into tiles of `rows` x `columns`, each computed by so
// many blocks.
struct Cost {
    const Kernel* kernel;
    int rows, columns, blocks;
    int at_once;          // blocks that the device runs at once: a wave
    double start;         // the launch
    double wave, wave_k;  // each wave, and each k of it
    double turn, turn_k;  // each block of the SM that has most of them, and each k of it
    double c, ab;         // each element of C, and of A and B
};

// Where factors stand along a size, in octaves: log2 of it, between powers of two linear in it.
struct Axis {
    double first, per_octave;
    int nodes;
};

// Estimated times of several kernels. What a kernel's costs add up to is multiplied by its factor, which is interpolated
// between the nodes of M, N and K: so many factors at each of them, those of K in a row.
struct Times {
    int sms;
    bool batched;
    int kernels;
    Axis M, N, K;
    const Cost* costs;
    const double* factors;
};

// The nodes around a size: `before` and, a `share` of the way on, the next one.
struct Place {
    int before, next;
    double share;
};

Place place_of(const Axis& axis, int size)
{
    int exponent = 0;
    const double fraction = std::frexp(static_cast<double>(std::max(1, size)), &exponent);
    const double along = (exponent - 2 + 2 * fraction - axis.first) * axis.per_octave;
    const double inside = std::min(std::max(along, 0.0), axis.nodes - 1.0);
    const int before = std::min(static_cast<int>(inside), std::max(0, axis.nodes - 2));
    return {before, std::min(before + 1, axis.nodes - 1), inside - before};
}

unsigned tiles(int size, int tile) { return (static_cast<unsigned>(size) + tile - 1) / tile; }

double rounded_up(double value)
{
    const double whole = static_cast<double>(static_cast<long long>(value));
    return whole < value ? whole + 1 : whole;
}

// The kernel with the least estimated time.
const Kernel* fastest(const Times& times, const Args& a)
{
    const Place m = place_of(times.M, a.M), n = place_of(times.N, a.N), k = place_of(times.K, a.K);
    const double* corners[8];
    double weights[8];
    for (int i = 0; i < 8; ++i) {
        const int plane = i & 4 ? m.next : m.before, row = i & 2 ? n.next : n.before, column = i & 1 ? k.next : k.before;
        corners[i] = times.factors + ((plane * times.N.nodes + row) * times.K.nodes + column) * times.kernels;
        weights[i] = (i & 4 ? m.share : 1 - m.share) * (i & 2 ? n.share : 1 - n.share) * (i & 1 ? k.share : 1 - k.share);
    }
    const double batch = ${ "times.batched ? a.batch : 1" if lib.batched else "1" };
    const double c = static_cast<double>(a.M) * a.N * batch, ab = (static_cast<double>(a.M) + a.N) * a.K * batch;
    const Kernel* best = nullptr;
    double least = 0;
    for (int i = 0; i < times.kernels; ++i) {
        const Cost& cost = times.costs[i];
        const double blocks = batch * cost.blocks * tiles(a.M, cost.rows) * tiles(a.N, cost.columns);
        const double waves = rounded_up(blocks / cost.at_once), turns = rounded_up(blocks / times.sms);
        const double us = cost.start + waves * (cost.wave + cost.wave_k * a.K) + turns * (cost.turn + cost.turn_k * a.K)
                        + cost.c * c + cost.ab * ab;
        double factor = 0;
        for (int corner = 0; corner < 8; ++corner) factor += weights[corner] * corners[corner][i];
        if (best == nullptr || us * factor < least) {
            best = cost.kernel;
            least = us * factor;
        }
    }
    return best;
}

