/*# Elements as numbers and back: CUDA's own conversions where it has them. #*/
// The number that an element stands for.
//% for e in out.elements
${ test.wide } decode(${ e.name } x) { return ${ e.decode }; }
/*% endfor %*/

// The element nearest to a number, ties to even.
template <typename Element>
Element encode(${ test.wide } value);
//% for e in out.elements
template <>
${ e.name } encode(${ test.wide } value) { return ${ e.encode }; }
/*% endfor %*/

