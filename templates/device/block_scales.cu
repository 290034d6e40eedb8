/*# Elements from a row of scales by block to the next, along M or N, by whether rows are padded to 16 bytes. #*/
//% set pitches = {false: "s.%s", true: "((s.%s + 3) / 4 * 4)"}
