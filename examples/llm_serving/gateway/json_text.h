// JSON as clients like to see it: decimals as 0.25 (Boost.JSON writes 2.5E-1), text always valid UTF-8.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

namespace serving::gateway {

void append_json(std::string& out, const boost::json::value& value);
std::string to_json(const boost::json::value& value);

// The decimal that prints as the float does: -0.1f is -0.1 and not -0.10000000149011612.
double shortest(float value);

// What is no UTF-8 becomes U+FFFD, one for each wrong byte.
std::string valid_utf8(std::string_view bytes);

// How many begin here: a character that is cut into pieces counts with its first one.
size_t characters(std::string_view bytes);

}  // namespace serving::gateway
