/*# Element types `elements` of CUDA, whose `headers` define them for C++ alone. #*/
#ifdef __cplusplus
//% for header in headers
#include <${ header }>
//% endfor
#else /* CUDA defines ${ "this type" if elements | length == 1 else "these types" } for C++ alone: C knows pointers to ${ "it" if elements | length == 1 else "them" } */
//% for element in elements
#ifndef ${ element.guard } /* other headers of gemmgen's declare it, too: C before C11 takes a typedef once */
#define ${ element.guard }
typedef struct ${ element.name } ${ element.name };
#endif
//% endfor
#endif
