import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { Audit } from "../Audit.ts"

/** The handler of `/v1/audit-log`. */
export const AuditLogHttp = HttpApiBuilder.group(
  Api,
  "audit_log",
  Effect.fnUntraced(function* (handlers) {
    const audit = yield* Audit
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.map(audit.list(query), ({ items, next_cursor }) => ({ entries: items, next_cursor }))
    })
  })
)
