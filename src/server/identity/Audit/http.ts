import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { AuditEntryPage } from "../../../api/AuditLog.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { Audit } from "../Audit.ts"
import { AuditChain } from "../AuditChain.ts"

const respondAuditEntryPage = jsonResponse(AuditEntryPage)

/** The handlers of `/v1/audit-log`. */
export const AuditLogHttp = HttpApiBuilder.group(
  Api,
  "auditLog",
  Effect.fnUntraced(function* (handlers) {
    const audit = yield* Audit
    const chain = yield* AuditChain
    return handlers.handleAll({
      list: ({ query }) =>
        Effect.flatMap(audit.list(query), ({ items, next_cursor }) =>
          respondAuditEntryPage({ entries: items, next_cursor })
        ),
      export: ({ query }) => chain.export(query.after ?? 0),
      getCheckpoint: () => chain.checkpoint
    })
  })
)
