// The backend of this process: none before init and after shutdown. What the public headers call without a
// template stands in current.cc: it reaches the backend through here.
//
// A backend outlives its session: refs and handles that are left after shutdown compare their backend with
// the current one and then keep away from it.
#pragma once

#include <rayo/internal/backend.h>

namespace rayo::api {

// Any thread; null where there is none.
internal::Backend* current_backend();

// By init and shutdown. From then on a child made by fork() has no backend.
void set_current_backend(internal::Backend* backend);

}  // namespace rayo::api
