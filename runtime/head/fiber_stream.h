// A base::Stream as a synchronous stream of Asio and Beast, also below asio::ssl::stream: what would block suspends the
// fiber. For the .cc files of this folder alone.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "runtime/base/loop/socket.h"

namespace rayo::head {

class FiberStream {
 public:
  using executor_type = boost::asio::any_io_executor;
  using lowest_layer_type = FiberStream;

  FiberStream(base::Loop& loop, base::Stream& stream) : loop_(loop), stream_(stream) {}

  // Of everything that follows.
  void until(base::TimePoint deadline) { deadline_ = deadline; }
  executor_type get_executor() { return loop_.io().get_executor(); }
  lowest_layer_type& lowest_layer() { return *this; }

  template <class Buffers>
  size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    boost::asio::mutable_buffer first = *boost::asio::buffer_sequence_begin(buffers);
    auto got = stream_.read_some({static_cast<std::byte*>(first.data()), first.size()}, deadline_);
    error = {};
    if (!got.ok()) error = boost::asio::error::timed_out;
    if (got.ok() && *got == 0) error = boost::asio::error::eof;
    return got.ok() ? *got : 0;
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers, boost::system::error_code& error) {
    std::string bytes;
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != boost::asio::buffer_sequence_end(buffers); ++at) {
      boost::asio::const_buffer piece = *at;
      bytes.append(static_cast<const char*>(piece.data()), piece.size());
    }
    size_t size = bytes.size();
    error = {};
    if (!stream_.write(std::move(bytes), {}, deadline_).ok()) error = boost::asio::error::timed_out;
    return error ? 0 : size;
  }
  // The throwing forms that Beast's concepts ask for.
  template <class Buffers>
  size_t read_some(const Buffers& buffers) {
    boost::system::error_code error;
    size_t got = read_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return got;
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers) {
    boost::system::error_code error;
    size_t sent = write_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return sent;
  }

 private:
  base::Loop& loop_;
  base::Stream& stream_;
  base::TimePoint deadline_ = base::kForever;
};

}  // namespace rayo::head
