// The headers that most sources include, to be compiled once for all of them. Each source still names its own.
#pragma once

#include "decoder.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "numbers.hpp"
#include "watch.hpp"
