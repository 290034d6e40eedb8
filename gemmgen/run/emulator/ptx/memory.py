"""PTX instructions that reach memory or other threads: loads, stores, copies, atomics, barriers, warps."""

from __future__ import annotations

from collections.abc import Callable

from gemmgen.run.emulator.ptx.arithmetic import TYPES, WHERE
from gemmgen.run.emulator.ptx.operands import Instruction, joined

SPACES = {"global": "g", "shared": "s"}
ORDERS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio")
SCOPES = {"cta": "block", "cluster": "cluster", "gpu": "gpu", "sys": "gpu"}  # and what they are in atomics.hpp
VECTORS = {"v2": 2, "v4": 4}
HINTS = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc")  # beside those that begin with L1:: or L2::
ATOMIC_TYPES = {
    "u32": "unsigned",
    "b32": "unsigned",
    "s32": "int",
    "u64": "unsigned long long",
    "b64": "unsigned long long",
    "s64": "long long",
    "f32": "float",
    "f64": "double",
}
ATOMICS = {
    "add": ("atomicAdd", ("u32", "s32", "u64", "f32", "f64")),
    "exch": ("atomicExch", ("b32", "b64")),
    "min": ("atomicMin", ("u32", "s32", "u64", "s64")),
    "max": ("atomicMax", ("u32", "s32", "u64", "s64")),
    "and": ("atomicAnd", ("b32", "b64")),
    "or": ("atomicOr", ("b32", "b64")),
    "xor": ("atomicXor", ("b32", "b64")),
    "inc": ("atomicInc", ("u32",)),
    "dec": ("atomicDec", ("u32",)),
    "cas": ("atomicCAS", ("b32", "b64")),
}
SHUFFLES = ("up", "down", "bfly", "idx")
FENCE, ORDERED = "::gemmgen::fence();", f" {WHERE}keep_order();"


def _words(one: Instruction) -> tuple[str, str, int, str, set[str]]:
    """Space, order, elements and type of an access, and what else its name says."""
    _, *words, label = one.parts
    one.require(label in TYPES and label != "pred", f"the type .{label}")
    space = next((SPACES[word] for word in words if word in SPACES), " ")
    order = next((word for word in words if word in ORDERS), "weak")
    count = next((VECTORS[word] for word in words if word in VECTORS), 1)
    rest = {word for word in words if word not in (*SPACES, *SCOPES, *VECTORS, order)}
    return space, order, count, label, {word for word in rest if not word.startswith(("L1::", "L2::"))}


def _scope(one: Instruction) -> str:
    """The threads to which it is an atomic, or a fence; those of the GPU where it does not say."""
    return f"::gemmgen::Scope::{next((SCOPES[part] for part in one.parts if part in SCOPES), 'gpu')}"


def _place(one: Instruction, space: str, text: str, size: str) -> str:
    base, offset = one.address(text)
    return f"{WHERE}at<'{space}'>({base}, {offset}, {size}, __LINE__)"


def _access(one: Instruction) -> tuple[str, str, list[str], str, str]:
    """Space, order, the parts of the register operand, its element's C++ type and the place in memory."""
    space, order, count, label, rest = _words(one)
    for word in rest:
        one.require(word in HINTS, f".{word}")
    hint = "cache_hint" in one.name
    one.count(3 if hint else 2)
    registers, address = one.operands[:2] if one.parts[0] == "ld" else (one.operands[1], one.operands[0])
    parts = one.vector(registers)
    one.require(len(parts) == count, f"{len(parts)} registers")
    place = _place(one, space, address, f"sizeof({TYPES[label]}) * {count}")
    return space, order, parts, TYPES[label], place


def load(one: Instruction) -> str:
    _, order, parts, ctype, place = _access(one)
    one.require(order != "acquire" or len(parts) == 1, "a vector")
    if order == "acquire" or (order == "relaxed" and len(parts) == 1 and one.parts[-1].endswith(("32", "64"))):
        value = f"{WHERE}observed<{ctype}>({place}, __LINE__, {_scope(one)})"
        after = FENCE if order == "acquire" else _ordered(one)
        return f"{{ const auto value = {value}; {_given(one, parts[0], 'value')} {after} }}"
    read_only = f"{WHERE}check_read_only<{ctype}, {len(parts)}>(place, __LINE__); " if "nc" in one.parts else ""
    value = f"const auto value = {WHERE}load<{ctype}, {len(parts)}>(place);"
    given = " ".join(_given(one, text, f"value.parts[{i}]") for i, text in enumerate(parts))
    return f"{{ const void* const place = {place}; {read_only}{value} {given}{_ordered(one)} }}"


def store(one: Instruction) -> str:
    _, order, parts, ctype, place = _access(one)
    values = joined([f"{WHERE}low_as<{ctype}>({one.value(text)})" for text in parts])
    if order == "release":
        one.require(len(parts) == 1, "a vector")
        return f"{FENCE} {WHERE}publish<{ctype}>({place}, {values}, __LINE__, {_scope(one)});"
    vector = f"{WHERE}Vector<{ctype}, {len(parts)}>"
    return f"{WHERE}store<{ctype}, {len(parts)}>({place}, {vector}{{{{{values}}}}});{_ordered(one)}"


def _given(one: Instruction, text: str, value: str) -> str:
    return "" if text == "_" else f"{WHERE}put_wide({one.register(text)}, {value});"


def _ordered(one: Instruction) -> str:
    return ORDERED if one.ordered else ""


def atomic(one: Instruction) -> str:
    """atom and red; each part of a vector of red is one of its own."""
    space, order, count, label, rest = _words(one)
    one.require(len(rest) == 1 and rest <= ATOMICS.keys(), "the operation")
    (name,) = rest
    function, labels = ATOMICS[name]
    one.require(label in labels and order in ("weak", "relaxed", "acquire", "release", "acq_rel"), f".{order}.{label}")
    ctype = ATOMIC_TYPES[label]
    returns = one.parts[0] == "atom"
    address, *sources = one.operands[1:] if returns else one.operands
    one.count(returns + 1 + (2 if name == "cas" else 1))
    one.require(count == 1 or not returns, "a vector")
    place = _place(one, space, address, f"sizeof({ctype}) * {count}")
    where = f"__LINE__, {_scope(one)}"
    before = f"{FENCE} " if order in ("release", "acq_rel") else ""
    after = f" {FENCE}" if order in ("acquire", "acq_rel") else ""
    if count > 1:
        parts = enumerate(one.vector(sources[0]))
        calls = [f"{function}(place + {i}, {WHERE}as<{ctype}>({one.value(text)}), {where});" for i, text in parts]
        return f"{{ auto* const place = static_cast<{ctype}*>({place}); {before}{' '.join(calls)}{after} }}"
    values = joined([f"{WHERE}as<{ctype}>({one.value(text)})" for text in sources])
    call = f"{function}(static_cast<{ctype}*>({place}), {values}, {where})"
    if not returns or one.operands[0] == "_":
        return f"{before}(void){call};{after}"
    return f"{before}{WHERE}put({one.register(one.operands[0])}, {call});{after}"


def converted_address(one: Instruction) -> str:
    """cvta: generic addresses are the host's; those of shared memory are as a GPU counts them."""
    one.count(2)
    target, source = one.operands
    to, label = "to" in one.parts, one.parts[-1]
    one.require(label in ("u64", "u32"), f"the type .{label}")
    value = f"{WHERE}as<{TYPES[label]}>({one.value(source)})"
    if "shared" in one.parts:
        one.require(label == "u64", f"the type .{label}")
        value = (
            f"uint64_t(::gemmgen::shared_window(reinterpret_cast<const void*>({value})))"
            if to
            else f"uint64_t(::gemmgen::address_in('s', {value}, 1, __LINE__))"
        )
    else:
        one.require("global" in one.parts, "the state space")
    return f"{WHERE}put({one.register(target)}, {value});"


def copied(one: Instruction) -> str:
    """cp.async and what waits for it."""
    if one.name == "cp.async.commit_group":
        return "::gemmgen::commit_copies();"
    if one.name == "cp.async.wait_all":
        return "::gemmgen::commit_copies(); ::gemmgen::wait_for_copies(0);"
    if one.name == "cp.async.wait_group":
        one.count(1)
        return f"::gemmgen::wait_for_copies(int({one.value(one.operands[0])}.value));"
    words = [part for part in one.parts if not part.startswith("L2::")]
    one.require(
        words in (["cp", "async", "ca", "shared", "global"], ["cp", "async", "cg", "shared", "global"]), "a part"
    )
    policy = "cache_hint" in one.name
    one.count(*((4, 5) if policy else (3, 4)))
    shared, source, size, *valid = one.operands[:-1] if policy else one.operands
    bytes_ = f"int({one.value(size)}.value)"
    one.require(words[2] == "ca" or size == "16" or size.startswith("%"), f"{size} bytes")
    count = f"int({WHERE}as<uint32_t>({one.value(valid[0])}))" if valid else bytes_
    places = joined([_place(one, "s", shared, "1"), _place(one, "g", source, "1")])
    return f"::gemmgen::copy_async({places}, {bytes_}, {count}, __LINE__);"


def barrier(one: Instruction) -> str:
    """bar.sync, bar.arrive, bar.warp.sync and the votes of a block."""
    words = [part for part in one.parts if part not in ("cta", "aligned")]
    if words[1:] == ["warp", "sync"]:
        one.count(1)
        return f"::__syncwarp({WHERE}as<uint32_t>({one.value(one.operands[0])}), __LINE__);"
    if words[1] == "red":
        return _block_vote(one, words)
    one.require(words[1:] in (["sync"], ["arrive"]), "a part")
    one.count(*((1, 2) if words[1] == "sync" else (2,)))
    number, *threads = [f"{WHERE}as<uint32_t>({one.value(text)})" for text in one.operands]
    count = threads[0] if threads else "uint32_t(blockDim.x)"
    waits, aligned = (str(said).lower() for said in (words[1] == "sync", words[0] == "bar" or "aligned" in one.parts))
    return f"{WHERE}meet({number}, {count}, {waits}, {aligned}, __LINE__);"


def _block_vote(one: Instruction, words: list[str]) -> str:
    functions = {("popc", "u32"): "count", ("and", "pred"): "and", ("or", "pred"): "or"}
    function = functions.get((words[2], words[3])) if len(words) == 4 else None
    one.require(function is not None and len(one.operands) == 3 and one.operands[1] == "0", "a part")
    target, _, vote = one.operands
    return f"{WHERE}put({one.register(target)}, ::__syncthreads_{function}({one.value(vote)}, __LINE__));"


def fence(one: Instruction) -> str:
    one.count(0)
    if one.parts[-1] == "cta" and "proxy" not in one.parts:
        return f"{WHERE}keep_order();"
    if one.parts[1] == "proxy":
        one.require(one.parts[2].startswith("async"), "the proxy")
        return "::fence_proxy_async();"
    if one.parts[1] == "mbarrier_init":
        return "::fence_mbarrier_init();"
    known = one.parts[0] == "membar" or one.parts[1] in ("acq_rel", "sc")
    one.require(known and one.parts[-1] in ("gl", "sys", "gpu", "cluster"), "a part")
    return f"::gemmgen::fence({_scope(one)});"


def shuffle(one: Instruction) -> str:
    words = one.parts
    one.require(len(words) == 4 and words[1] == "sync" and words[2] in SHUFFLES and words[3] == "b32", "a part")
    one.count(5)
    target, *sources = one.operands
    values = joined([f"{WHERE}as<uint32_t>({one.value(text)})" for text in sources])
    to, _, inside = target.partition("|")
    said = f" {one.register(inside.strip())} = inside;" if inside.strip() not in ("", "_") else ""
    call = f"{WHERE}shfl<{WHERE}Shuffle::{words[2]}>({values}, inside, __LINE__)"
    return f"{{ bool inside; {WHERE}put({one.register(to.strip())}, {call});{said} }}"


def vote(one: Instruction) -> str:
    words = one.parts
    one.require(len(words) == 4 and words[1] == "sync" and words[2] in ("all", "any", "uni", "ballot"), "a part")
    one.count(3)
    target, voted, mask = one.operands
    operands = f"{WHERE}as<uint32_t>({one.value(mask)}), {one.value(voted)}, __LINE__"
    value = f"::__{words[2]}_sync({operands})" if words[2] != "uni" else f"{WHERE}uniform({operands})"
    return f"{WHERE}put({one.register(target)}, {value});"


def redux(one: Instruction) -> str:
    words = one.parts
    one.require(len(words) == 4 and words[1] == "sync" and words[3] in ("u32", "s32", "b32"), "a part")
    one.count(3)
    functions = {
        **{name: f"__reduce_{name}_sync" for name in ("add", "min", "max")},
        **{name: f"{WHERE}reduce_{name}" for name in ("and", "or", "xor")},
    }
    one.require(words[2] in functions, f".{words[2]}")
    target, source, mask = one.operands
    values = f"{WHERE}as<uint32_t>({one.value(mask)}), {WHERE}as<{TYPES[words[3]]}>({one.value(source)})"
    return f"{WHERE}put({one.register(target)}, {functions[words[2]]}({values}, __LINE__));"


def match_any(one: Instruction) -> str:
    one.require(one.name in ("match.any.sync.b32", "match.any.sync.b64"), "a part")
    one.count(3)
    target, source, mask = one.operands
    values = f"{WHERE}as<uint32_t>({one.value(mask)}), {WHERE}as<{TYPES[one.parts[-1]]}>({one.value(source)})"
    return f"{WHERE}put({one.register(target)}, ::__match_any_sync({values}, __LINE__));"


def active_mask(one: Instruction) -> str:
    one.count(1)
    return f"{WHERE}put({one.register(one.operands[0])}, ::gemmgen::active_mask(__LINE__));"


def rows_of_matrices(one: Instruction) -> str:
    """ldmatrix and stmatrix: the twins."""
    loads = one.parts[0] == "ldmatrix"
    words = [part for part in one.parts[1:] if part != "trans"]
    count = words[3].removeprefix("x") if len(words) == 6 else ""
    one.require(
        words == ["sync", "aligned", "m8n8", f"x{count}", "shared", "b16"] and count in ("1", "2", "4"), "a part"
    )
    one.count(2)
    registers, address = one.operands if loads else one.operands[::-1]
    parts = one.vector(registers)
    one.require(len(parts) == int(count), f"{len(parts)} registers")
    place, transposed = _place(one, "s", address, "1"), str("trans" in one.parts).lower()
    if loads:
        given = "".join(f" {WHERE}put({one.register(text)}, r[{i}]);" for i, text in enumerate(parts))
        return (
            f"{{ unsigned r[{count}]; ::gemmgen::load_matrices(r, {count}, {transposed}, {place}, __LINE__);{given} }}"
        )
    values = joined([f"{WHERE}as<uint32_t>({one.value(text)})" for text in parts])
    call = f"::gemmgen::store_matrices(r, {count}, {transposed}, {place}, __LINE__);"
    return f"{{ const unsigned r[] = {{{values}}}; {call} }}"


def dependency(one: Instruction) -> str:
    one.require(one.name in ("griddepcontrol.wait", "griddepcontrol.launch_dependents"), "a part")
    return "::gemmgen::grid_dependency_wait();" if one.parts[1] == "wait" else ""


def hint(one: Instruction) -> str:
    """What changes no value: prefetches, pauses."""
    return ""


def policy(one: Instruction) -> str:
    """A cache's policy, which is never looked into."""
    return f"{one.register(one.operands[0])} = 0;"


def trap(one: Instruction) -> str:
    return "__builtin_trap();"


TABLE: dict[str, Callable[[Instruction], str]] = {
    "ld": load,
    "st": store,
    "atom": atomic,
    "red": atomic,
    "cvta": converted_address,
    "cp": copied,
    "bar": barrier,
    "barrier": barrier,
    "membar": fence,
    "fence": fence,
    "shfl": shuffle,
    "vote": vote,
    "redux": redux,
    "match": match_any,
    "activemask": active_mask,
    "ldmatrix": rows_of_matrices,
    "stmatrix": rows_of_matrices,
    "griddepcontrol": dependency,
    "prefetch": hint,
    "prefetchu": hint,
    "applypriority": hint,
    "nanosleep": hint,
    "pmevent": hint,
    "createpolicy": policy,
    "trap": trap,
}
