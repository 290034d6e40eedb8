/*# What all threads do before they take their roles. #*/
//% from "device/dependent_launch.cu" import overlap
//% from "wgmma/range.cu" import matrix_number
/*# The barriers are set up, and the kernel before on the stream has ended. #*/
//% macro prologue(kernel, view)
//% import view.blocks as blocks
//% import view.tiles as tiles
    extern __shared__ __align__(1024) unsigned char bytes[];  // the launch sets its size; above 48 KB the host opts in
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
${ blocks.initialise(tiles, view) | trim("\n") }
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
${ blocks.meet() | trim("\n") }
//% if kernel.dependent
${ overlap("  // the barriers are set up while the kernel before still runs") | trim("\n") }
//% endif
//% endmacro
/*# Which tiles there are, and which range of K is this block's. #*/
//% macro work(kernel, view)
//% import view.blocks as blocks
//% import view.schedule as schedule
//% import view.tiles as tiles
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
//% if kernel.drops_alpha
${ schedule.drop_alpha(kernel) | trim("\n") }
//% endif
${ blocks.rank(view) }${ schedule.count(view) }${ tiles.schedule(view) }    Ring ring;
//% endmacro
/*# The tile of C that a block computes, #*/
//% macro tile_of_block(view)
//% import view.blocks as blocks
//% import view.schedule as schedule
const TileOrigin tile = ${ schedule.tile(view) }${ blocks.rank_argument });
//% endmacro
/*# and of which matrix. #*/
//% macro matrix_of_block(view)
//% import view.schedule as schedule
//% if view.batched
const int matrix = ${ matrix_number(view) };
//% endif
${ schedule.range_of_group(view) }
//%- endmacro
