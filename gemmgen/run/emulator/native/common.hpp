// Precompiled: the headers that most sources include. Each source still includes what it needs.
#pragma once

#include "decoder.hpp"
#include "lanes.hpp"
#include "machine.hpp"
#include "numbers.hpp"
#include "watch.hpp"
