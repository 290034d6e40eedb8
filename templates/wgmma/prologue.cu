/*# What all threads do before they take their roles. #*/
//% from "device/dependent_launch.cu" import overlap
/*# The schedule in words, above the kernel. #*/
//% macro overview(view)
// Each stage of the ring goes from the producer to ${ "a consumer" if view.pingpong else "the consumers" } and back, by two mbarriers:
//     producer  waits for empty[stage], has full[stage] expect their bytes, and starts TMA's loads, which complete it
//     consumer  ${ "in its turn " if view.pingpong }waits for full[stage], multiplies by wgmma and, once that has read the stage, arrives at ${ "all blocks' " if view.cluster > 1 }empty[stage]
//% if view.persistent
// The ring goes on from one tile of C to the next: while a consumer stores C, the next tile's first k tiles are loaded.
//% endif
//% endmacro
/*# The barriers are set up, and the kernel before on the stream has ended. #*/
//% macro prologue(kernel, view)
    extern __shared__ __align__(1024) unsigned char bytes[];  // the launch sets its size; above 48 KB the host opts in
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
//% if view.pingpong
            mbarrier_init(&shared.full[stage], 1);   // the producer's arrival, and the bytes
            mbarrier_init(&shared.empty[stage], ${ "CLUSTER" if view.cluster > 1 else "1" });  // one thread of the consumer that reads the k tile${ ", in each block" if view.cluster > 1 }
//% elif view.cluster > 1
            mbarrier_init(&shared.full[stage], 1);                     // the producer's arrival, and the bytes
            mbarrier_init(&shared.empty[stage], CLUSTER * CONSUMERS);  // one thread of each
//% else
            mbarrier_init(&shared.full[stage], 1);           // the producer's arrival, and the bytes
            mbarrier_init(&shared.empty[stage], CONSUMERS);  // one thread of each
//% endif
        }
//% if view.loads_c
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) mbarrier_init(&shared.c_loaded[consumer], 1);
//% endif
        fence_mbarrier_init();
    }
//% for x in view.limited
    for (int stage = 0; stage < STAGES; ++stage) clear(shared.${ x.x }[stage]);  // products read lines that ${ x.X } does not have, too
//% endfor
//% if view.limited
    fence_proxy_async();
//% endif
//% if view.cluster > 1
    cluster_sync();  // other blocks arrive at these barriers, too
//% else
    __syncthreads();
//% endif
//% if kernel.dependent
${ overlap("the barriers are set up while the kernel before still runs") | trim("\n") }
//% endif
//% endmacro
/*# Which tiles there are, and which range of K is this block's. #*/
//% macro work(kernel, view)
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
//% if kernel.drops_alpha
    if (s.K == 0) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endif
//% if view.cluster > 1
    const int rank = static_cast<int>(cluster_rank());  // the blocks of a cluster compute tiles ${ "below" if view.along == "m" else "beside" } each other
//% endif
//% if view.persistent or view.batched
//% set rows, columns = "CLUSTER_M" if view.along == "m" else "BM", "CLUSTER_N" if view.along == "n" else "BN"
    const int tiles = ((s.M + ${ rows } - 1) / ${ rows }) * ((s.N + ${ columns } - 1) / ${ columns });${ "  // of a matrix of the batch" if view.batched }
//% endif
//% if view.split
    const int rank = static_cast<int>(cluster_rank());  // says which range of K, and which part of the tile
//% if view.even
    const int begin = rank * (s.K / SPLIT), end = begin + s.K / SPLIT;
//% else
    const auto [begin, end] = split_k_range(s.K, rank);
//% endif
//% endif
//% if view.pingpong
    const int k_tiles = ${ "PAIRS * ((s.K + BK - 1) / BK)" if view.pieces else "(s.K + BK - 1) / BK" };  // of a tile of C
//% endif
    Ring ring;
//% endmacro
