"""Names that the headers of C and CUDA define, which a function or a file of users' projects cannot have.

They are those of glibc 2.36 with GNU extensions and of CUDA 13.0. `tests/host/test_header_names.py` compares them with
the headers of the machine that it runs on.
"""

from __future__ import annotations

import re
from contextlib import suppress
from ctypes import CDLL
from functools import cache

_VECTOR = r"(?:u?(?:char|short|int|long|longlong)|float|double)[1-4](?:_\w+)?"
_RULES = (  # families of names
    r"cu(?:da|[A-Z]|u?int)\w*",  # CUDA's functions and types
    r"CU(?:DA|DART|DARTAPI|BLAS)?_\w+|CU[a-z]\w*|NV[A-Z]*_\w+|CIG_\w+",  # its constants, macros and the driver's types
    r"atomic[A-Z]\w*|(?:tex|surf)(?:[123]D|Cubemap)\w*|sm_\d+",
    rf"{_VECTOR}|make_(?:{_VECTOR}|half2|bfloat162)",
    r"f(?:16|32|64|128)x?(?:add|sub|mul|div|fma|sqrt)f(?:16|32|64|128)x?",  # <math.h>: f32addf64
    r"U?INT(?:_FAST|_LEAST)?(?:\d+|MAX|PTR)(?:_(?:MAX|MIN|WIDTH|C))?",  # <stdint.h>: INT_FAST8_MAX
    r"u?int(?:_fast|_least)?(?:\d+|max|ptr)_t",
    r"(?:FLT|DBL|LDBL)\d*X?_\w+",  # <float.h>
)
_FAMILY = re.compile("|".join(_RULES))
_OF_A_TYPE = ("", "f", "l", "f16", "f32", "f64", "f128", "f32x", "f64x")  # behind functions of <math.h>
_MATH = (
    "M_1_PI M_2_PI M_2_SQRTPI M_E M_LN10 M_LN2 M_LOG10E M_LOG2E M_PI M_PI_2 M_PI_4 M_SQRT1_2 M_SQRT2 acos acosh",
    "asin asinh atan atan2 atanh canonicalize cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 drem",
    "erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim fdivide finite floor fma fmax fmaximum",
    "fmaximum_mag fmaximum_mag_num fmaximum_num fmaxmag fmin fminimum fminimum_mag fminimum_mag_num fminimum_num",
    "fminmag fmod frexp fromfp fromfpx gamma getpayload hypot ilogb isinf isnan j0 j1 jn ldexp lgamma llogb llrint",
    "llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nextdown nexttoward nextup norm",
    "norm3d norm4d normcdf normcdfinv pow rcbrt remainder remquo rhypot rint rnorm rnorm3d rnorm4d round roundeven",
    "rsqrt scalb scalbln scalbn setpayload setpayloadsig significand sin sincos sincospi sinh sinpi sqrt tan tanh",
    "tgamma totalorder totalordermag trunc ufromfp ufromfpx y0 y1 yn",
)
_OTHERS = (
    "ADJ_ESTERROR ADJ_FREQUENCY ADJ_MAXERROR ADJ_MICRO ADJ_NANO ADJ_OFFSET ADJ_OFFSET_SINGLESHOT ADJ_OFFSET_SS_READ",
    "ADJ_SETOFFSET ADJ_STATUS ADJ_TAI ADJ_TICK ADJ_TIMECONST AIO_PRIO_DELTA_MAX BC_BASE_MAX BC_DIM_MAX BC_SCALE_MAX",
    "BC_STRING_MAX BIG_ENDIAN BOOL_MAX BOOL_WIDTH BUFSIZ BYTE_ORDER CHARCLASS_NAME_MAX CHAR_BIT CHAR_MAX CHAR_MIN",
    "CHAR_WIDTH CLOCKS_PER_SEC CLOCK_BOOTTIME CLOCK_BOOTTIME_ALARM CLOCK_MONOTONIC CLOCK_MONOTONIC_COARSE",
    "CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID CLOCK_REALTIME CLOCK_REALTIME_ALARM CLOCK_REALTIME_COARSE",
    "CLOCK_TAI CLOCK_THREAD_CPUTIME_ID COLL_WEIGHTS_MAX CUCoredumpGenerationFlags CUDAAPI CUDARTAPI DECIMAL_DIG",
    "DELAYTIMER_MAX E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EADV EAFNOSUPPORT EAGAIN EALREADY EBADE EBADF EBADFD",
    "EBADMSG EBADR EBADRQC EBADSLT EBFONT EBUSY ECANCELED ECHILD ECHRNG ECOMM ECONNABORTED ECONNREFUSED ECONNRESET",
    "EDEADLK EDEADLOCK EDESTADDRREQ EDOM EDOTDOT EDQUOT EEXIST EFAULT EFBIG EHOSTDOWN EHOSTUNREACH EHWPOISON EIDRM",
    "EILSEQ EINPROGRESS EINTR EINVAL EIO EISCONN EISDIR EISNAM EKEYEXPIRED EKEYREJECTED EKEYREVOKED EL2HLT EL2NSYNC",
    "EL3HLT EL3RST ELIBACC ELIBBAD ELIBEXEC ELIBMAX ELIBSCN ELNRNG ELOOP EMEDIUMTYPE EMFILE EMLINK EMSGSIZE",
    "EMULTIHOP ENAMETOOLONG ENAVAIL ENETDOWN ENETRESET ENETUNREACH ENFILE ENOANO ENOBUFS ENOCSI ENODATA ENODEV",
    "ENOENT ENOEXEC ENOKEY ENOLCK ENOLINK ENOMEDIUM ENOMEM ENOMSG ENONET ENOPKG ENOPROTOOPT ENOSPC ENOSR ENOSTR",
    "ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTNAM ENOTRECOVERABLE ENOTSOCK ENOTSUP ENOTTY ENOTUNIQ ENXIO EOF",
    "EOPNOTSUPP EOVERFLOW EOWNERDEAD EPERM EPFNOSUPPORT EPIPE EPROTO EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG",
    "EREMOTE EREMOTEIO ERESTART ERFKILL EROFS ESHUTDOWN ESOCKTNOSUPPORT ESPIPE ESRCH ESRMNT ESTALE ESTRPIPE ETIME",
    "ETIMEDOUT ETOOMANYREFS ETXTBSY EUCLEAN EUNATCH EUSERS EWOULDBLOCK EXDEV EXFULL EXIT_FAILURE EXIT_SUCCESS",
    "EXPR_NEST_MAX FD_CLR FD_ISSET FD_SET FD_SETSIZE FD_ZERO FILE FILENAME_MAX FOPEN_MAX FP_ILOGB0 FP_ILOGBNAN",
    "FP_INFINITE FP_INT_DOWNWARD FP_INT_TONEAREST FP_INT_TONEARESTFROMZERO FP_INT_TOWARDZERO FP_INT_UPWARD",
    "FP_LLOGB0 FP_LLOGBNAN FP_NAN FP_NORMAL FP_SUBNORMAL FP_ZERO HOST_NAME_MAX HUGE_VAL HUGE_VALF HUGE_VALL",
    "HUGE_VAL_F128 HUGE_VAL_F32 HUGE_VAL_F32X HUGE_VAL_F64 HUGE_VAL_F64X IF_DEVICE_OR_CUDACC INFINITY INT_MAX",
    "INT_MIN INT_WIDTH IOV_MAX LINE_MAX LITTLE_ENDIAN LLONG_MAX LLONG_MIN LLONG_WIDTH LOGIN_NAME_MAX LONG_BIT",
    "LONG_LONG_MAX LONG_LONG_MIN LONG_MAX LONG_MIN LONG_WIDTH L_ctermid L_cuserid L_tmpnam MAJOR_VERSION",
    "MATH_ERREXCEPT MATH_ERRNO MAXFLOAT MAX_CANON MAX_INPUT MB_CUR_MAX MB_LEN_MAX MINOR_VERSION MOD_CLKA MOD_CLKB",
    "MOD_ESTERROR MOD_FREQUENCY MOD_MAXERROR MOD_MICRO MOD_NANO MOD_OFFSET MOD_STATUS MOD_TAI MOD_TIMECONST",
    "MQ_PRIO_MAX NAME_MAX NAN NFDBITS NGROUPS_MAX NL_ARGMAX NL_LANGMAX NL_MSGMAX NL_NMAX NL_SETMAX NL_TEXTMAX NULL",
    "NZERO PATCH_LEVEL PATH_MAX PDP_ENDIAN PIPE_BUF PTHREAD_DESTRUCTOR_ITERATIONS PTHREAD_KEYS_MAX",
    "PTHREAD_STACK_MIN PTRDIFF_MAX PTRDIFF_MIN PTRDIFF_WIDTH P_tmpdir RAND_MAX RENAME_EXCHANGE RENAME_NOREPLACE",
    "RENAME_WHITEOUT RESOURCE_ABI_EXTERNAL_BYTES RESOURCE_ABI_VERSION RE_DUP_MAX RTSIG_MAX SCHAR_MAX SCHAR_MIN",
    "SCHAR_WIDTH SEEK_CUR SEEK_DATA SEEK_END SEEK_HOLE SEEK_SET SEM_VALUE_MAX SHRT_MAX SHRT_MIN SHRT_WIDTH",
    "SIG_ATOMIC_MAX SIG_ATOMIC_MIN SIG_ATOMIC_WIDTH SIZE_MAX SIZE_WIDTH SNAN SNANF SNANF128 SNANF32 SNANF32X",
    "SNANF64 SNANF64X SNANL SSIZE_MAX STA_CLK STA_CLOCKERR STA_DEL STA_FLL STA_FREQHOLD STA_INS STA_MODE STA_NANO",
    "STA_PLL STA_PPSERROR STA_PPSFREQ STA_PPSJITTER STA_PPSSIGNAL STA_PPSTIME STA_PPSWANDER STA_RONLY STA_UNSYNC",
    "TIMER_ABSTIME TIME_UTC TMP_MAX TTY_NAME_MAX UCHAR_MAX UCHAR_WIDTH UINT_MAX UINT_WIDTH ULLONG_MAX ULLONG_WIDTH",
    "ULONG_LONG_MAX ULONG_MAX ULONG_WIDTH USHRT_MAX USHRT_WIDTH WCHAR_MAX WCHAR_MIN WCHAR_WIDTH WCONTINUED WEXITED",
    "WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WINT_MAX WINT_MIN WINT_WIDTH WNOHANG WNOWAIT",
    "WORD_BIT WSTOPPED WSTOPSIG WTERMSIG WUNTRACED XATTR_LIST_MAX XATTR_NAME_MAX XATTR_SIZE_MAX a64l abort abs",
    "aligned_alloc all alloca any arc4random arc4random_buf arc4random_uniform asctime asctime_r asprintf assert",
    "assert_perror at_quick_exit atexit atof atoi atol atoll ballot base_int_t basename bcmp bcopy be16toh be32toh",
    "be64toh blkcnt64_t blkcnt_t blksize_t bsearch bzero caddr_t calloc canonicalize_file_name",
    "cl_context_flags_enum cl_event_flags_enum clearenv clearerr clearerr_unlocked clock clock64 clock_adjtime",
    "clock_getcpuclockid clock_getres clock_gettime clock_nanosleep clock_settime clock_t clockid_t comparison_fn_t",
    "cookie_close_function_t cookie_io_functions_t cookie_read_function_t cookie_seek_function_t",
    "cookie_write_function_t ctermid ctime ctime_r cuserid dadd daddl daddr_t daylight ddivl deprecated dev_t dfmal",
    "difftime div div_t dmul dmull double2int double2ll double2uint double2ull double_t dprintf drand48 drand48_r",
    "dsqrtl dsub dsubl dysize ecvt ecvt_r erand48 erand48_r errno error_t exit explicit_bzero fadd faddl fclose",
    "fcloseall fcvt fcvt_r fd_mask fd_set fdiv fdivl fdopen feof feof_unlocked ferror ferror_unlocked fflush",
    "fflush_unlocked ffma ffmal ffs ffsl ffsll fgetc fgetc_unlocked fgetpos fgetpos64 fgets fgets_unlocked fileno",
    "fileno_unlocked float2double float_t flockfile fmemopen fmul fmull fopen fopen64 fopencookie fpclassify",
    "fpos64_t fpos_t fprintf fputc fputc_unlocked fputs fputs_unlocked fread fread_unlocked free freopen freopen64",
    "fsblkcnt64_t fsblkcnt_t fscanf fseek fseeko fseeko64 fsetpos fsetpos64 fsfilcnt64_t fsfilcnt_t fsid_t fsqrt",
    "fsqrtl fsub fsubl ftell ftello ftello64 ftrylockfile funlockfile fwrite fwrite_unlocked gcvt getc",
    "getc_unlocked getchar getchar_unlocked getdate getdate_err getdate_r getdelim getenv getline getloadavg getpt",
    "getsubopt getw gid_t gmtime gmtime_r grantpt h2ceil h2cos h2exp h2exp10 h2exp2 h2floor h2log h2log10 h2log2",
    "h2rcp h2rint h2rsqrt h2sin h2sqrt h2tanh h2tanh_approx h2trunc hGraph hceil hcos height hexp hexp10 hexp2",
    "hfloor hi hlog hlog10 hlog2 hrcp hrint hrsqrt hsin hsqrt htanh htanh_approx htobe16 htobe32 htobe64 htole16",
    "htole32 htole64 htrunc id_t index initstate initstate_r ino64_t ino_t int2double isalnum isalnum_l isalpha",
    "isalpha_l isascii isascii_l isblank isblank_l iscanonical iscntrl iscntrl_l isctype isdigit isdigit_l iseqsig",
    "isfinite isgraph isgraph_l isgreater isgreaterequal isless islessequal islessgreater islower islower_l",
    "isnormal isprint isprint_l ispunct ispunct_l issignaling isspace isspace_l issubnormal isunordered isupper",
    "isupper_l isxdigit isxdigit_l iszero jrand48 jrand48_r key_t l64a labs lcong48 lcong48_r ldiv ldiv_t le16toh",
    "le32toh le64toh lgamma_r lgammaf128_r lgammaf32_r lgammaf32x_r lgammaf64_r lgammaf64x_r lgammaf_r lgammal_r",
    "libraryPropertyType_t linux ll2double llabs lldiv lldiv_t llmax llmin locale_t localtime localtime_r loff_t",
    "lrand48 lrand48_r make_cudaExtent make_cudaPitchedPtr make_cudaPos malloc math_errhandling max max_align_t",
    "mblen mbstowcs mbtowc memccpy memchr memcmp memcpy memfrob memmem memmove mempcpy memrchr memset min mkdtemp",
    "mkostemp mkostemp64 mkostemps mkostemps64 mkstemp mkstemp64 mkstemps mkstemps64 mktemp mktime mode_t mrand48",
    "mrand48_r nanosleep nlink_t nrand48 nrand48_r nv_bfloat16 nv_bfloat162 nv_half nv_half2 obstack obstack_printf",
    "obstack_vprintf off64_t off_t offsetof on_exit open_memstream pclose perror pid_t popen posix_memalign",
    "posix_openpt printf program_invocation_name program_invocation_short_name pselect pthread_attr_t",
    "pthread_barrier_t pthread_barrierattr_t pthread_cond_t pthread_condattr_t pthread_key_t pthread_mutex_t",
    "pthread_mutexattr_t pthread_once_t pthread_rwlock_t pthread_rwlockattr_t pthread_spinlock_t pthread_t",
    "ptrdiff_t ptsname ptsname_r putc putc_unlocked putchar putchar_unlocked putenv puts putw qecvt qecvt_r qfcvt",
    "qfcvt_r qgcvt qsort qsort_r quad_t quick_exit rand rand_r random random_r rawmemchr realloc reallocarray",
    "realpath register_t remove rename renameat renameat2 rewind rindex rpmatch scanf secure_getenv seed48 seed48_r",
    "select setbuf setbuffer setenv setlinebuf setstate setstate_r setvbuf sigabbrev_np sigdescr_np sigevent",
    "signbit signgam sigset_t size_t snprintf sprintf srand srand48 srand48_r srandom srandom_r sscanf ssize_t",
    "stderr stdin stdout stpcpy stpncpy strcasecmp strcasecmp_l strcasestr strcat strchr strchrnul strcmp strcoll",
    "strcoll_l strcpy strcspn strdup strdupa strerror strerror_l strerror_r strerrordesc_np strerrorname_np",
    "strfromd strfromf strfromf128 strfromf32 strfromf32x strfromf64 strfromf64x strfroml strfry strftime",
    "strftime_l strlen strncasecmp strncasecmp_l strncat strncmp strncpy strndup strndupa strnlen strpbrk strptime",
    "strptime_l strrchr strsep strsignal strspn strstr strtod strtod_l strtof strtof128 strtof128_l strtof32",
    "strtof32_l strtof32x strtof32x_l strtof64 strtof64_l strtof64x strtof64x_l strtof_l strtok strtok_r strtol",
    "strtol_l strtold strtold_l strtoll strtoll_l strtoq strtoul strtoul_l strtoull strtoull_l strtouq strverscmp",
    "strxfrm strxfrm_l suseconds_t syncthreads_and syncthreads_count syncthreads_or system tempnam time time_t",
    "timegm timelocal timer_create timer_delete timer_getoverrun timer_gettime timer_settime timer_t timespec_get",
    "timespec_getres timezone tmpfile tmpfile64 tmpnam tmpnam_r toascii toascii_l tolower tolower_l toupper",
    "toupper_l tzname tzset u_char u_int u_int16_t u_int32_t u_int64_t u_int8_t u_long u_quad_t u_short uid_t uint",
    "uint2double ull2double ullmax ullmin ulong umax umin ungetc unix unlockpt unsetenv useconds_t ushort va_list",
    "valloc vasprintf vdprintf vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf wcstombs wctomb",
)
NAMES = frozenset(
    [*" ".join(_OTHERS).split(), *(f"{name}{behind}" for name in " ".join(_MATH).split() for behind in _OF_A_TYPE)]
)


def in_headers(name: str) -> bool:
    """Whether a header of C or CUDA defines `name`, or may define it because of CUDA's prefixes."""
    return name in NAMES or _FAMILY.fullmatch(name) is not None


def used_by(name: str) -> str | None:
    """The reason why a user's function cannot be called `name`, or None if it can."""
    if in_headers(name):
        return "headers of C or CUDA define it"
    if any(hasattr(one, name) for one in _libraries()):  # write, which C's own library and CUDA's runtime call
        return "the C library has a function of this name, which it would replace"
    return None


@cache
def _libraries() -> list[CDLL]:
    """The C libraries of this machine."""
    found = []
    for name in ("libc.so.6", "libm.so.6"):
        with suppress(OSError):
            found.append(CDLL(name))
    return found
