/*# Where a product's C begins in global memory, for threads that go on from there. #*/
//% set first_of_c = {"none": "C + ", "strided": "C + matrix * s.stride_c + ", "pointers": "C_array[matrix] + "}
