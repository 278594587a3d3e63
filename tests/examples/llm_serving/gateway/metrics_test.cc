// What a user loses if these fail: vLLM's dashboards stay empty.
#include "examples/llm_serving/gateway/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace serving::gateway {
namespace {

using testing::HasSubstr;

TEST(Metrics, HaveVllmsNamesBucketsAndLabels) {
  Router router;
  router.add(1, 8, {});
  router.answered(1, {.state = "ready", .kv_tokens = 100, .kv_used_tokens = 25, .running = 3, .output_tokens = 7}, {});
  ModelMetrics metrics("m\"1");
  metrics.ended({.finish_reason = "stop",
                 .prompt_tokens = 12,
                 .output_tokens = 3,
                 .longest_output = 3,
                 .queued = 0.01,
                 .to_first_token = 0.03,
                 .whole = 0.43});
  metrics.token_gap(0.2);
  metrics.refused(429);
  MetricsText out;
  metrics.append(out, router);
  const std::string text = out.text();
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:time_to_first_token_seconds histogram\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:time_to_first_token_seconds_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"0.02\"} 0\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:time_to_first_token_seconds_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"0.04\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:time_to_first_token_seconds_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:inter_token_latency_seconds_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"0.2\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:request_time_per_output_token_seconds_sum{model_name=\"m\\\"1\",engine=\"0\"} 0.2\n"));
  // What vLLM's own dashboard asks for besides.
  EXPECT_THAT(text, HasSubstr("vllm:request_queue_time_seconds_sum{model_name=\"m\\\"1\",engine=\"0\"} 0.01\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_prefill_time_seconds_sum{model_name=\"m\\\"1\",engine=\"0\"} 0.0199"));
  EXPECT_THAT(text, HasSubstr("vllm:request_inference_time_seconds_sum{model_name=\"m\\\"1\",engine=\"0\"} 0.42\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_decode_time_seconds_sum{model_name=\"m\\\"1\",engine=\"0\"} 0.4\n"));
  EXPECT_THAT(
      text,
      HasSubstr("vllm:request_max_num_generation_tokens_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"2\"} 0\n"));
  EXPECT_THAT(
      text,
      HasSubstr("vllm:request_max_num_generation_tokens_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"5\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("vllm:num_requests_running{model_name=\"m\\\"1\",engine=\"1\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("vllm:kv_cache_usage_perc{model_name=\"m\\\"1\",engine=\"1\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("vllm:generation_tokens_total{model_name=\"m\\\"1\",engine=\"1\"} 7\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:request_success_total{model_name=\"m\\\"1\",engine=\"0\",finished_reason=\"stop\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rayo:requests_refused_total{model_name=\"m\\\"1\",status=\"429\"} 1\n"));
}

TEST(Metrics, OfSeveralModelsStandUnderOneHead) {
  Router router;
  router.add(1, 8, {});
  ModelMetrics first("a"), second("b");
  MetricsText out;
  first.append(out, router);
  second.append(out, router);
  const std::string text = out.text();
  const std::string head = "# TYPE vllm:num_requests_running gauge\n";
  EXPECT_EQ(text.find(head), text.rfind(head)) << "Prometheus refuses a name's second TYPE line";
  EXPECT_THAT(text, HasSubstr(head + "vllm:num_requests_running{model_name=\"a\",engine=\"1\"} 0\n" +
                              "vllm:num_requests_running{model_name=\"b\",engine=\"1\"} 0\n"));
}

}  // namespace
}  // namespace serving::gateway
