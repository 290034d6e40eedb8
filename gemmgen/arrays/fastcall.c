/* Calls on torch's tensors that lie as those of an earlier call did, which Python has checked: see fastcall.py.

   Nothing is refused here. Whatever is unusual, or fails before it is launched, is answered with NotImplemented: the
   caller then takes the complete path in Python, which does the work or raises the right message. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum {
    MOST_OPERANDS = 12,
    MOST_DIMENSIONS = 3,
    OPERAND_WORDS = 3 + 2 * MOST_DIMENSIONS,
    HEAD_WORDS = 2, /* alpha and beta */
    MOST_PARAMETERS = 32,
    MOST_MAPS = 5,
    MAP_BYTES = 128,
    MOST_RANK = 5,
    CONFIG_BYTES = 56, /* of CUlaunchConfig */
    STREAM_AT = 32,
    SLOTS = 128, /* of a cache, a power of 2 */
};

static PyObject *dtype_, *is_cuda_, *get_device_, *shape_, *stride_, *data_ptr_, *requires_grad_;
static PyObject *name_a, *name_b, *name_c;

/* ---- What a call's operands say of themselves ---- */

typedef struct {
    int64_t words[HEAD_WORDS + MOST_OPERANDS * OPERAND_WORDS]; /* all that was checked but addresses and rows */
    Py_ssize_t used;
    PyObject *operands[MOST_OPERANDS];
    uint64_t addresses[MOST_OPERANDS];
    int count;
    int64_t rows; /* M, where the check leaves it open, else 0 */
} Seen;

typedef struct {
    PyObject_HEAD
    PyObject *tensor;  /* torch.Tensor */
    PyObject *rows_of; /* operands whose first size is M: ArrayKernel.rows_of */
    PyObject *forms;   /* entries by `Seen.words` */
    long long most_rows;
} Calls;

static PyObject *unusual(void) {
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
}

/* Whether an attribute is `value`, which lives for good: so does each dtype. */
static int is(PyObject *tensor, PyObject *name, PyObject *value) {
    PyObject *found = PyObject_GetAttr(tensor, name);
    Py_XDECREF(found);
    return found == value;
}

/* Takes `found`, a tuple of at most MOST_DIMENSIONS. */
static int read_sizes(PyObject *found, int64_t *to, Py_ssize_t *count) {
    int read = found != NULL && PyTuple_Check(found) && PyTuple_GET_SIZE(found) <= MOST_DIMENSIONS;
    if (read) {
        *count = PyTuple_GET_SIZE(found);
        for (Py_ssize_t one = 0; one < *count; one++) to[one] = PyLong_AsLongLong(PyTuple_GET_ITEM(found, one));
        read = !PyErr_Occurred();
    }
    Py_XDECREF(found);
    return read;
}

static int read_number(PyObject *tensor, PyObject *method, uint64_t *to) {
    PyObject *found = PyObject_CallMethodNoArgs(tensor, method);
    if (found == NULL) return 0;
    *to = PyLong_AsUnsignedLongLong(found);
    Py_DECREF(found);
    return !PyErr_Occurred();
}

/* The next operand: its part of the words, and its address. 0 for what is no usual tensor. */
static int see(Calls *self, Seen *seen, PyObject *name, PyObject *tensor) {
    int64_t *words = seen->words + seen->used;
    uint64_t device = 0; /* of what is not CUDA's, else from 1 on */
    Py_ssize_t sizes, steps;
    if ((PyObject *)Py_TYPE(tensor) != self->tensor || seen->count == MOST_OPERANDS) return 0;
    if (!is(tensor, requires_grad_, Py_False)) return 0;
    if (is(tensor, is_cuda_, Py_True) && (!read_number(tensor, get_device_, &device) || ++device == 0)) return 0;
    PyObject *dtype = PyObject_GetAttr(tensor, dtype_);
    Py_XDECREF(dtype); /* torch keeps it for good */
    memset(words, 0, OPERAND_WORDS * sizeof *words);
    if (!read_sizes(PyObject_GetAttr(tensor, shape_), words + 3, &sizes)) return 0;
    if (!read_sizes(PyObject_CallMethodNoArgs(tensor, stride_), words + 3 + MOST_DIMENSIONS, &steps)) return 0;
    if (!read_number(tensor, data_ptr_, &seen->addresses[seen->count]) || PyErr_Occurred()) return 0;
    words[0] = (int64_t)(intptr_t)name; /* which the entry keeps */
    words[1] = (int64_t)(intptr_t)dtype;
    words[2] = (int64_t)device * 8 + sizes;
    seen->operands[seen->count++] = tensor;
    seen->used += OPERAND_WORDS;
    return 1;
}

/* Leave M out of an operand's sizes where it is that of the call. */
static int leave_out_rows(Calls *self, const Seen *seen, int64_t *words, PyObject *name) {
    int grows = PySet_Contains(self->rows_of, name);
    if (grows > 0 && words[2] % 8 != 0 && words[3] == seen->rows) words[3] = -1;
    return grows >= 0;
}

static int see_scalar(PyObject *value, int64_t *to) {
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value)) return 0;
    double number = PyFloat_AsDouble(value);
    memcpy(to, &number, sizeof number);
    return !PyErr_Occurred();
}

/* As ArrayKernel.seen does it. `args`: a, b, out, alpha, beta, stream, operands. */
static int see_call(Calls *self, PyObject *const *args, Seen *seen) {
    PyObject *name, *operand;
    seen->used = HEAD_WORDS, seen->count = 0, seen->rows = 0;
    if (!PyDict_CheckExact(args[6]) || !see(self, seen, name_a, args[0]) || !see(self, seen, name_b, args[1])) return 0;
    if (args[2] == Py_None) seen->addresses[seen->count] = 0, seen->operands[seen->count++] = NULL;
    else if (!see(self, seen, name_c, args[2])) return 0;
    Py_ssize_t place = 0;
    while (PyDict_Next(args[6], &place, &name, &operand))
        if (!see(self, seen, name, operand)) return 0;
    int64_t *words = seen->words + HEAD_WORDS, *of_b = words + OPERAND_WORDS;
    int open = PySet_GET_SIZE(self->rows_of) > 0 && words[2] % 8 != 0 && words[3] > 1 && words[3] <= self->most_rows;
    for (int64_t size = 0; size < of_b[2] % 8; size++) open = open && of_b[3 + size] != 0;
    if (open) {
        seen->rows = words[3];
        for (; words < seen->words + seen->used; words += OPERAND_WORDS)
            if (!leave_out_rows(self, seen, words, (PyObject *)(intptr_t)words[0])) return 0;
    }
    return see_scalar(args[3], &seen->words[0]) && see_scalar(args[4], &seen->words[1]);
}

/* ---- Launches of one form in one context ---- */

typedef int (*GetCurrent)(void **);
typedef int (*Enqueue)(const void *, void *, void **, void **);
typedef int (*Encode)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                      const uint32_t *, int, int, int, int);

typedef struct { int64_t place, bits; } Mask;
typedef struct { int64_t out, bytes, row, other, extent, step; } Pair;
typedef struct { int64_t parameter, word; } Variable;
/* A tensor map: its parameter, its operand, whether it has as many lines as C has rows, the lines of a whole box, of which
   its own has the remainder (0: it is a whole one); and its encoder's arguments. */
typedef struct {
    int64_t parameter, word, by_rows, tail, dtype, rank, sizes, strides, box, steps, interleave, swizzle, promotion, fill;
} Map;
typedef struct { uint64_t address; int64_t rows; char map[MAP_BYTES]; } Encoded;
typedef struct { int64_t unit, blocks; } Grid;

typedef struct {
    PyObject_HEAD
    GetCurrent get_current;
    Enqueue enqueue;
    Encode encode;
    long long context, function, by_rows, tile; /* rows of a tile: grids with as many tiles are the same */
    Py_buffer config, parameters, variables, maps, masks, pairs;
    PyObject *blocks, *kept; /* blocks(rows); what has to live as long */
    Encoded *encoded;        /* SLOTS for each map */
    Grid grids[SLOTS];
} Launch;

static uint64_t slot_of(uint64_t number) { return (number * 0x9E3779B97F4A7C15u) >> 57; } /* of SLOTS */

/* The map of an operand, copied to `to`: by other threads its slot may be taken at any time. */
static int place_map(Launch *self, int number, uint64_t address, int64_t rows, char *to) {
    const Map *map = (const Map *)self->maps.buf + number;
    int64_t lines = map->by_rows ? rows : 0;
    Encoded *kept = self->encoded + number * SLOTS + slot_of(address + (uint64_t)lines);
    if (kept->address != address || kept->rows != lines) {
        uint64_t sizes[MOST_RANK];
        uint32_t box[MOST_RANK];
        memcpy(sizes, (void *)map->sizes, map->rank * sizeof *sizes);
        memcpy(box, (void *)map->box, map->rank * sizeof *box);
        if (lines) sizes[1] = lines;
        if (lines && map->tail) box[1] = (uint32_t)((lines - 1) % map->tail / 8 * 8 + 8); /* as tail_lines */
        if (address == 0 || address % 16) return 0;
        if (self->encode(to, map->dtype, map->rank, (void *)address, sizes, (void *)map->strides, box,
                         (void *)map->steps, map->interleave, map->swizzle, map->promotion, map->fill))
            return 0;
        kept->address = address, kept->rows = lines;
        memcpy(kept->map, to, MAP_BYTES);
    }
    memcpy(to, kept->map, MAP_BYTES);
    return 1;
}

static int64_t blocks_for(Launch *self, int64_t rows) {
    int64_t unit = rows ? (rows + self->tile - 1) / self->tile : 0;
    Grid *kept = &self->grids[slot_of(unit)];
    if (kept->blocks == 0 || kept->unit != unit) {
        PyObject *found = rows ? PyObject_CallFunction(self->blocks, "L", (long long)rows)
                               : PyObject_CallFunction(self->blocks, "O", Py_None);
        int64_t blocks = found == NULL ? 0 : PyLong_AsLongLong(found);
        Py_XDECREF(found);
        if (PyErr_Occurred() || blocks <= 0) return 0;
        kept->unit = unit, kept->blocks = blocks;
    }
    return kept->blocks;
}

/* As Checked.require_addresses; operands that come close to each other are looked at in Python. */
static int addresses_fit(const Launch *self, const uint64_t *addresses, int64_t rows) {
    const Mask *mask = self->masks.buf;
    for (Py_ssize_t left = self->masks.len / sizeof *mask; left--; mask++)
        if (addresses[mask->place] & mask->bits) return 0;
    const Pair *pair = self->pairs.buf;
    for (Py_ssize_t left = self->pairs.len / sizeof *pair; left--; pair++) {
        int64_t distance = (int64_t)(addresses[pair->other] - addresses[pair->out]);
        if (-pair->extent - rows * pair->step < distance && distance < pair->bytes + rows * pair->row) return 0;
    }
    return 1;
}

/* Whether it was launched. */
static int launched(Launch *self, const Seen *seen, uint64_t stream) {
    char __attribute__((aligned(64))) maps[MOST_MAPS][MAP_BYTES];
    char __attribute__((aligned(16))) config[CONFIG_BYTES];
    uint64_t words[MOST_OPERANDS + 1], parameters[MOST_PARAMETERS];
    int64_t rows = self->by_rows ? seen->rows : 0;
    void *context = NULL;
    if (self->by_rows && rows == 0) return 0; /* whose check leaves M open, and that of the call does not */
    if (!addresses_fit(self, seen->addresses, rows)) return 0;
    if (self->get_current(&context) || (int64_t)(intptr_t)context != self->context) return 0;
    uint32_t blocks = (uint32_t)blocks_for(self, rows);
    if (blocks == 0) return 0;
    memcpy(config, self->config.buf, CONFIG_BYTES);
    memcpy(config, &blocks, sizeof blocks);
    memcpy(config + STREAM_AT, &stream, sizeof stream);
    memcpy(words, seen->addresses, seen->count * sizeof *words);
    words[seen->count] = rows;
    memcpy(parameters, self->parameters.buf, self->parameters.len);
    const Variable *variable = self->variables.buf;
    for (Py_ssize_t left = self->variables.len / sizeof *variable; left--; variable++)
        parameters[variable->parameter] = (uint64_t)&words[variable->word];
    const Map *map = self->maps.buf;
    for (Py_ssize_t number = 0; number < self->maps.len / (Py_ssize_t)sizeof *map; number++) {
        if (!place_map(self, number, words[map[number].word], rows, maps[number])) return 0;
        parameters[map[number].parameter] = (uint64_t)maps[number];
    }
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = self->enqueue(config, (void *)self->function, (void **)parameters, NULL);
    Py_END_ALLOW_THREADS
    return status == 0;
}

static void launch_dealloc(Launch *self) {
    PyBuffer_Release(&self->config), PyBuffer_Release(&self->parameters), PyBuffer_Release(&self->variables);
    PyBuffer_Release(&self->maps), PyBuffer_Release(&self->masks), PyBuffer_Release(&self->pairs);
    Py_XDECREF(self->blocks), Py_XDECREF(self->kept);
    PyMem_Free(self->encoded);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *launch_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    long long current, enqueue, encode;
    PyObject *blocks, *kept;
    Launch *self = (Launch *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    if (!PyArg_ParseTuple(args, "LLLLLLLy*y*y*y*y*y*OO", &current, &enqueue, &encode, &self->context, &self->function,
                          &self->by_rows, &self->tile, &self->config, &self->parameters,
                          &self->variables, &self->maps, &self->masks, &self->pairs, &blocks, &kept)) {
        Py_DECREF(self);
        return NULL;
    }
    self->blocks = Py_NewRef(blocks), self->kept = Py_NewRef(kept);
    self->get_current = (GetCurrent)current, self->enqueue = (Enqueue)enqueue, self->encode = (Encode)encode;
    Py_ssize_t maps = self->maps.len / (Py_ssize_t)sizeof(Map);
    self->encoded = PyMem_Calloc(maps * SLOTS + 1, sizeof *self->encoded);
    if (self->encoded == NULL || maps > MOST_MAPS || self->config.len != CONFIG_BYTES ||
        self->parameters.len > MOST_PARAMETERS * (Py_ssize_t)sizeof(uint64_t)) {
        Py_DECREF(self);
        PyErr_SetString(PyExc_ValueError, "a launch with more maps or parameters than are known");
        return NULL;
    }
    return (PyObject *)self;
}

static PyTypeObject LaunchType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "fastcall.Launch",
    .tp_basicsize = sizeof(Launch),
    .tp_new = launch_new,
    .tp_dealloc = (destructor)launch_dealloc,
};

/* ---- Calls ---- */

enum { LAUNCH, ROUTE, CHUNK, NEW_C, STREAM, ORDINAL, WROTE, WRITTEN, ENTRY };

/* The launch of an entry, a new reference: where it depends on M, the one that is kept, or that ROUTE finds. */
static Launch *launch_in(PyObject *entry, const Seen *seen) {
    PyObject *found = PyTuple_GET_ITEM(entry, LAUNCH);
    if (PyDict_Check(found)) {
        uint64_t all = 0, chunk = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(entry, CHUNK));
        for (int place = 0; place < seen->count; place++) all |= seen->addresses[place];
        if (all % chunk) return NULL;
        PyObject *rows = PyLong_FromLongLong(seen->rows), *kept = rows ? PyDict_GetItemWithError(found, rows) : NULL;
        if (kept != NULL) Py_INCREF(kept);
        else if (rows != NULL) kept = PyObject_CallOneArg(PyTuple_GET_ITEM(entry, ROUTE), rows);
        Py_XDECREF(rows);
        found = kept;
    } else {
        Py_INCREF(found);
    }
    if (found == NULL || Py_TYPE(found) == &LaunchType) return (Launch *)found;
    Py_DECREF(found);
    return NULL;
}

static int stream_of(PyObject *entry, PyObject *given, uint64_t *to) {
    PyObject *ask = PyTuple_GET_ITEM(entry, STREAM), *ordinal = PyTuple_GET_ITEM(entry, ORDINAL);
    PyObject *found = given == Py_None ? PyObject_CallOneArg(ask, ordinal) : Py_NewRef(given);
    int known = found != NULL && PyLong_CheckExact(found);
    if (known) *to = PyLong_AsUnsignedLongLong(found);
    Py_XDECREF(found);
    return known && !PyErr_Occurred();
}

static int tell_written(PyObject *entry, const Seen *seen) {
    PyObject *written = PyTuple_GET_ITEM(entry, WRITTEN);
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(written); place++) {
        PyObject *array = seen->operands[PyLong_AsLong(PyTuple_GET_ITEM(written, place))];
        PyObject *done = PyObject_CallOneArg(PyTuple_GET_ITEM(entry, WROTE), array);
        if (done == NULL) return 0;
        Py_DECREF(done);
    }
    return 1;
}

/* C, or NULL where nothing was launched; `failed` where that was, and what came behind it raised. A new reference. */
static PyObject *do_call(PyObject *entry, PyObject *const *args, Seen *seen, int *failed) {
    PyObject *c = args[2], *rows;
    uint64_t stream;
    if (!stream_of(entry, args[5], &stream)) return NULL;
    if (c == Py_None) {
        rows = seen->rows ? PyLong_FromLongLong(seen->rows) : Py_NewRef(Py_None);
        c = rows == NULL ? NULL : PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(entry, NEW_C), rows, args[0], NULL);
        Py_XDECREF(rows);
        if (c == NULL) return NULL;
    } else {
        Py_INCREF(c);
    }
    int placed = args[2] != Py_None || read_number(c, data_ptr_, &seen->addresses[2]);
    Launch *launch = placed ? launch_in(entry, seen) : NULL;
    int done = launch != NULL && launched(launch, seen, stream);
    Py_XDECREF((PyObject *)launch);
    *failed = done && !tell_written(entry, seen);
    if (done && !*failed) return c;
    Py_DECREF(c);
    return NULL;
}

static PyObject *key_of(const Seen *seen) {
    return PyBytes_FromStringAndSize((const char *)seen->words, seen->used * sizeof *seen->words);
}

static PyObject *calls_call(Calls *self, PyObject *const *args, Py_ssize_t count) {
    Seen seen;
    if (count != 7 || self->forms == NULL || !see_call(self, args, &seen)) return unusual();
    PyObject *key = key_of(&seen);
    PyObject *entry = key == NULL ? NULL : PyDict_GetItemWithError(self->forms, key);
    Py_XDECREF(key);
    if (entry == NULL) return unusual();
    Py_INCREF(entry);
    int failed = 0;
    PyObject *c = do_call(entry, args, &seen, &failed);
    Py_DECREF(entry);
    if (c == NULL && failed) return NULL;
    return c == NULL ? unusual() : c;
}

/* Of calls like this one, by which `forms` keeps their entry. `args`: as for `call`. */
static PyObject *calls_key(Calls *self, PyObject *const *args, Py_ssize_t count) {
    Seen seen;
    return count == 7 && see_call(self, args, &seen) ? key_of(&seen) : unusual();
}

static PyMethodDef calls_methods[] = {
    {"call", (PyCFunction)(void (*)(void))calls_call, METH_FASTCALL, NULL},
    {"key", (PyCFunction)(void (*)(void))calls_key, METH_FASTCALL, NULL},
    {NULL},
};

static int calls_traverse(Calls *self, visitproc visit, void *arg) { /* entries of a product call it */
    Py_VISIT(self->forms);
    return 0;
}

static int calls_clear(Calls *self) {
    Py_CLEAR(self->forms);
    return 0;
}

static void calls_dealloc(Calls *self) {
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->tensor), Py_XDECREF(self->rows_of), Py_XDECREF(self->forms);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *calls_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    Calls *self = (Calls *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    int given = PyArg_ParseTuple(args, "OO!LO!", &self->tensor, &PyFrozenSet_Type, &self->rows_of, &self->most_rows,
                                 &PyDict_Type, &self->forms);
    Py_XINCREF(self->tensor), Py_XINCREF(self->rows_of), Py_XINCREF(self->forms);
    if (given) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static PyTypeObject CallsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "fastcall.Calls",
    .tp_basicsize = sizeof(Calls),
    .tp_new = calls_new,
    .tp_dealloc = (destructor)calls_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)calls_traverse,
    .tp_clear = (inquiry)calls_clear,
    .tp_methods = calls_methods,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fastcall", NULL, -1, NULL};

PyMODINIT_FUNC PyInit_fastcall(void) {
    struct { PyObject **to; const char *text; } names[] = {
        {&dtype_, "dtype"}, {&is_cuda_, "is_cuda"}, {&get_device_, "get_device"}, {&shape_, "shape"},
        {&stride_, "stride"}, {&data_ptr_, "data_ptr"}, {&requires_grad_, "requires_grad"},
        {&name_a, "A"}, {&name_b, "B"}, {&name_c, "C"},
    };
    for (size_t place = 0; place < sizeof names / sizeof *names; place++)
        if ((*names[place].to = PyUnicode_InternFromString(names[place].text)) == NULL) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddType(made, &CallsType) || PyModule_AddType(made, &LaunchType)) return NULL;
    return made;
}
