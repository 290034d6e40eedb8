/*# All checks. #*/
//% set exact = "" if test.scalar.is_integer else "exact, "
    for (const Shape& shape : SHAPES)
//% if exact
        for (const bool exact : {true, false})
//% endif
//% set alpha = "exact ? alpha : alpha * into_range(shape.K)" if test.into_range and test.ranged == "alpha" else "alpha"
        ${ "    " if exact }for (const auto& [alpha, beta] : SCALARS) passed &= passes({shape, ${ exact }${ alpha }, beta});
