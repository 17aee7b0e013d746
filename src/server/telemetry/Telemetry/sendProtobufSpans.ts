import { Effect } from "effect"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import {
  type CollectorResponse,
  classifyUnsuccessful,
  type ExportOutcome
} from "../../../domain/telemetry/OtlpResponse.ts"
import { describeScoreStatus } from "../../../domain/telemetry/ScoresResponse.ts"
import type { Egress } from "../../egress/Egress.ts"
import { toProtobuf } from "./otlpProtobuf.ts"
import {
  type CollectorAddress,
  gunzipBatch,
  type RequestDestination,
  sendOnce,
  type SpanRequest
} from "./sendSpans.ts"

const gzipBytes = promisify(gzip)

/** Like `sendSpans`, for Phoenix, which takes spans over HTTP in Protobuf only. */
export const sendProtobufSpans = Effect.fnUntraced(function* (
  egress: Egress["Service"],
  destination: RequestDestination,
  to: CollectorAddress,
  { began, isGzipped, payload }: SpanRequest
) {
  const json = yield* gunzipBatch(payload)
  const protobuf = yield* toProtobuf(json.toString())
  const body = isGzipped ? yield* Effect.promise(() => gzipBytes(protobuf)) : protobuf
  const request = { body, isGzipped, contentType: "application/x-protobuf" }
  return yield* sendOnce(egress, destination, to, request, classify, began)
})

/** Phoenix answers 200 or 204 without a partial success: it queues spans. A page is an answer of something else. */
const classify = (response: CollectorResponse): ExportOutcome => {
  const { body, status } = response
  const unsuccessful = classifyUnsuccessful(response, describeScoreStatus("phoenix"))
  if (unsuccessful !== undefined) return unsuccessful
  return new TextDecoder().decode(body.subarray(0, 64)).trimStart().startsWith("<")
    ? { _tag: "Failed", status, error: `HTTP ${status} with a page: check that the URL is Phoenix's` }
    : { _tag: "Delivered", status }
}
