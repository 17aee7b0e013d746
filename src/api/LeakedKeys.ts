/**
 * Reports of leaked API keys. Not part of `Api`, whose operations all require a key: secret scanners have none. The
 * body is that of GitHub's secret scanning partner program.
 */
import { ByteSize, Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware } from "effect/http-api"
import { BodyLimit, foreignBody, ProblemFrame, RequestBody, requestParsing } from "./Middleware.ts"
import { RateLimited } from "./Problems.ts"

/** Maximum number of keys per report. */
export const MAX_REPORTED_KEYS = 1_000

/** A possible key that a scanner found. Other members, such as `type`, `url` and `source`, are ignored. */
export const LeakedKey = Schema.Struct({ token: Schema.String })

/** Rate limit of reports per address. Sending them needs no key, so the limit is checked before the body is read. */
export class ReportLimit extends HttpApiMiddleware.Service<ReportLimit>()("countersign/api/ReportLimit", {
  error: RateLimited
}) {}

/** Where scanners report leaked keys. */
export class LeakedKeysApi extends HttpApi.make("countersign-leaked-keys")
  .add(
    HttpApiGroup.make("leaked_keys")
      .add(
        HttpApiEndpoint.post("report", "/", {
          payload: Schema.NonEmptyArray(LeakedKey).check(Schema.isMaxLength(MAX_REPORTED_KEYS))
        })
          .annotate(BodyLimit, ByteSize.mebibytes(1))
          .annotateMerge(foreignBody)
      )
      .prefix("/leaked-keys")
      .middleware(RequestBody)
      .middleware(ReportLimit)
  )
  .annotateMerge(requestParsing)
  .middleware(ProblemFrame) {}
