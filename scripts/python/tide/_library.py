"""libtide-client by ctypes: what is declared in tide/client.h, and nothing else."""
import ctypes
import os

ABI = 1
c = ctypes


class Options(c.Structure):
    _fields_ = [("size", c.c_size_t), ("cluster", c.c_char_p), ("endpoints", c.c_char_p), ("keys", c.c_char_p),
                ("right", c.c_uint), ("outstanding", c.c_uint), ("connect_timeout", c.c_uint64),
                ("timeout", c.c_uint64), ("memory", c.c_uint64)]


class Info(c.Structure):
    _fields_ = [("size", c.c_size_t), ("up", c.c_bool), ("cluster", c.c_char * 64), ("node", c.c_char * 64),
                ("id", c.c_uint16), ("right", c.c_uint), ("outstanding", c.c_uint), ("bytes", c.c_uint64),
                ("connects", c.c_uint64), ("resent", c.c_uint64), ("direct", c.c_uint64), ("redirected", c.c_uint64)]


class Line(c.Structure):
    _fields_ = [("time", c.c_double), ("number", c.c_uint64), ("node", c.c_char * 64), ("kind", c.c_char * 32),
                ("text", c.c_char * 400)]


class Run(c.Structure):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char * 64), ("job", c.c_char * 64), ("user", c.c_char * 64),
                ("state", c.c_char * 16), ("why", c.c_char * 200), ("ended", c.c_bool), ("closed", c.c_bool),
                ("exit", c.c_int), ("slots", c.c_uint), ("reports", c.c_uint64), ("examples", c.c_double),
                ("loss", c.c_double), ("submitted_at", c.c_double), ("started_at", c.c_double),
                ("ended_at", c.c_double)]


_P, _U64, _SIZE = c.c_void_p, c.c_uint64, c.c_size_t
_OUT = c.POINTER(c.c_void_p)
_FUNCTIONS = {
    "abi": (c.c_uint,),
    "open": (c.c_int, c.POINTER(Options), _OUT),
    "shut": (None, _P),
    "close": (None, _P),
    "error": (c.c_char_p,),
    "error_name": (c.c_char_p, c.c_int),
    "retry_after_ms": (c.c_uint,),
    "table": (c.c_int, _P, c.c_char_p, _U64, _OUT),
    "width": (c.c_uint, _P),
    "key_count": (_U64, _P),
    "update": (c.c_char_p, _P),
    "pull": (c.c_int, _P, _P, _SIZE, _P, _U64, _OUT),
    "push": (c.c_int, _P, _P, _SIZE, _P, _U64, _OUT),
    "localize": (c.c_int, _P, _P, _SIZE, _U64, _OUT),
    "find": (c.c_int, _P, c.c_char_p, _U64, c.POINTER(_U64)),
    "call": (c.c_int, _P, _U64, c.c_char_p, _SIZE, _U64, _OUT),
    "cast": (c.c_int, _P, _U64, c.c_char_p, _SIZE),
    "wait": (c.c_int, _P, _U64),
    "is_done": (c.c_bool, _P),
    "answer": (_P, _P, c.POINTER(_SIZE)),
    "outcome": (c.c_int, _P),
    "free": (None, _P),
    "done": (_SIZE, _P, _OUT, _SIZE),
    "fd": (c.c_int, _P),
    "interrupt": (None, _P),
    "stream": (c.c_int, _P, c.c_char_p, c.c_bool, _OUT),
    "stream_next": (c.c_int, _P, c.POINTER(Line), _SIZE, _U64, c.POINTER(_SIZE)),
    "stream_close": (None, _P),
    "run": (c.c_int, _P, c.c_char_p, _U64, c.POINTER(Run)),
    "runs": (c.c_int, _P, c.c_bool, _U64, c.POINTER(Run), _SIZE, c.POINTER(_SIZE)),
    "run_wait": (c.c_int, _P, c.c_char_p, _U64, c.POINTER(Run)),
    "run_do": (c.c_int, _P, c.c_char_p, c.c_char_p, c.POINTER(c.c_char_p), _SIZE, _U64),
    "submit": (c.c_int, _P, c.POINTER(c.c_char_p), _SIZE, _U64, c.POINTER(Run)),
    "info": (c.c_int, _P, c.POINTER(Info)),
}


def _load():
    name = os.environ.get("TIDE_CLIENT_LIBRARY", "libtide-client.so.0")
    try:
        library = c.CDLL(name)
    except OSError as error:
        raise ImportError(f"cannot load {name}: {error}. Install libtide-client0, or set TIDE_CLIENT_LIBRARY") from None
    for function, (result, *arguments) in _FUNCTIONS.items():
        found = getattr(library, "tide_client_" + function)
        found.restype = result
        found.argtypes = arguments
        globals()[function] = found
    if library.tide_client_abi() != ABI:
        raise ImportError(f"{name} has version {library.tide_client_abi()} of its interface, this package {ABI}: "
                          "install libtide-client0 and python3-tide of one version")


_load()
