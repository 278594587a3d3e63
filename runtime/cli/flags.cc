#include "runtime/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "runtime/base/text.h"

namespace rayo::cli {

struct Flags::State {
  explicit State(const std::string& command, const std::string& summary)
      : name(command), app(summary, "rayo " + command) {
    app.get_formatter()->column_width(34);
  }
  std::string name;
  CLI::App app;
};

Flags::Flags(std::string command, std::string summary) : state_(std::make_unique<State>(command, summary)) {}
Flags::~Flags() = default;

void Flags::text(const std::string& name, std::string& value, const std::string& shape, const std::string& help) {
  state_->app.add_option(name, value, help)->type_name(shape);
}

void Flags::text(const std::string& name, std::optional<std::string>& value, const std::string& shape,
                 const std::string& help) {
  state_->app
      .add_option_function<std::string>(
          name, [&value](const std::string& given) { value = given; }, help)
      ->type_name(shape);
}

void Flags::texts(const std::string& name, std::vector<std::string>& values, const std::string& shape,
                  const std::string& help) {
  state_->app.add_option(name, values, help)->type_name(shape)->expected(1)->take_all()->allow_extra_args(false);
}

void Flags::on(const std::string& name, bool& value, const std::string& help) {
  state_->app.add_flag(name, value, help);
}

void Flags::argument(const std::string& name, std::string& value, const std::string& help, bool required) {
  state_->app.add_option(name, value, help)->type_name("")->required(required);
}

void Flags::hidden_text(const std::string& name, std::string& value) { state_->app.add_option(name, value)->group(""); }
void Flags::hidden_on(const std::string& name, bool& value) { state_->app.add_flag(name, value)->group(""); }

std::optional<int> Flags::read(const Arguments& arguments, Terminal& terminal) {
  Arguments reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  try {
    state_->app.parse(std::move(reversed));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    terminal.out() << help();
    return kDone;
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    const bool a_name = what.size() > 1 && std::isupper(static_cast<unsigned char>(what[1]));  // WHAT is required
    if (!a_name) what = base::lower(what.substr(0, 1)) + what.substr(1);
    return terminal.fail(base::cat("cannot read the arguments of '", state_->name, "': ", what),
                         "rayo help " + state_->name, kWrongUse);
  }
}

std::string Flags::help() const { return state_->app.help(); }

}  // namespace rayo::cli
