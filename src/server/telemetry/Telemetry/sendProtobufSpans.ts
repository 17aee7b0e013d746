import { Effect } from "effect"
import { promisify } from "node:util"
import { gunzip, gzip } from "node:zlib"
import {
  type CollectorResponse,
  classifyUnsuccessful,
  type ExportOutcome
} from "../../../domain/telemetry/OtlpResponse.ts"
import { describeScoreStatus } from "../../../domain/telemetry/ScoresResponse.ts"
import type { Egress } from "../../egress/Egress.ts"
import { MAX_BATCH_BYTES } from "../Spans/SpanBuffer.ts"
import { toProtobuf } from "./otlpProtobuf.ts"
import { type CollectorAddress, type RequestDestination, sendOnce } from "./sendSpans.ts"

const gunzipBytes = promisify(gunzip)
const gzipBytes = promisify(gzip)

/** Like `sendSpans`, for Phoenix, which takes spans over HTTP in Protobuf only. */
export const sendProtobufSpans = Effect.fnUntraced(function* (
  egress: Egress["Service"],
  destination: RequestDestination,
  to: CollectorAddress,
  payload: Uint8Array,
  _spans: number,
  began?: number
) {
  const json = yield* Effect.promise(() => gunzipBytes(payload, { maxOutputLength: MAX_BATCH_BYTES }))
  const protobuf = yield* toProtobuf(json.toString())
  const body = yield* Effect.promise(() => gzipBytes(protobuf))
  const request = { body, isGzipped: true, contentType: "application/x-protobuf" }
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
