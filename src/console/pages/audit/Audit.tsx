import { Atom } from "effect/reactivity"
import { useState } from "react"
import { AuditAction, type AuditEntry } from "../../../domain/identity/AuditEntry.ts"
import type { AuditEntryId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { apiClient } from "../../state/apiClient.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { auditPhrase, auditPhrases } from "./auditPhrases.ts"

const entriesAtom = Atom.family((action: AuditAction | undefined) =>
  pagedAtom(
    (cursor: AuditEntryId | undefined) =>
      apiClient.audit_log.list({
        query: { ...(action === undefined ? {} : { action }), ...(cursor === undefined ? {} : { cursor }) }
      }),
    "entries"
  )
)

/** The page of an entry's target; undefined for a target without one. */ const targetPage = (
  target: string
): string | undefined => {
  if (target.startsWith("apr_")) return `/approvals/${target}`
  if (target.startsWith("grt_")) return `/grants/${target}`
  if (target.startsWith("ses_")) return `/sessions/${target}`
  if (target.startsWith("nep_")) return `/endpoints/${target}`
  if (target.startsWith("tel_")) return "/telemetry"
  if (target.startsWith("tsk_")) return `/tasks/${target}`
  if (target.startsWith("dst_")) return `/datasets/${target}`
  if (target.startsWith("cmp_")) return `/comparisons/${target}`
  if (target.startsWith("fbk_")) return `/feedback/${target}`
  return undefined
}

/** The audit log, newest entry first, with a filter by action. */
export default function Audit() {
  const [action, setAction] = useState<AuditAction>()
  return (
    <>
      <PageHeader
        title="Audit log"
        aside={
          <label className="inline-field">
            <span>Action</span>
            <select
              value={action ?? ""}
              onChange={({ target }) => setAction(AuditAction.literals.find((one) => one === target.value))}
            >
              <option value="">All actions</option>
              {AuditAction.literals.map((one) => (
                <option key={one} value={one}>
                  {auditPhrases[one]}
                </option>
              ))}
            </select>
          </label>
        }
      >
        Changes to access, destinations and rules, and every decision. Entries cannot be edited.
      </PageHeader>
      <PagedList key={action} atom={entriesAtom(action)}>
        {(entries) =>
          entries.length === 0 ? (
            <EmptyState title="No matching entries" />
          ) : (
            <ul className="card entries">
              {entries.map((entry) => (
                <Entry key={entry.id} entry={entry} />
              ))}
            </ul>
          )
        }
      </PagedList>
    </>
  )
}

const Entry = ({ entry }: { readonly entry: AuditEntry }) => {
  const to = targetPage(entry.target_id)
  return (
    <li className="entry">
      <div className="entry-head">
        <p>
          <strong>{entry.actor === null ? "Operator" : <UntrustedText text={entry.actor.name} />}</strong>{" "}
          {auditPhrase(entry)}
        </p>
        <span className="quiet small">
          <AbsoluteTime time={entry.occurred_at} />
        </span>
      </div>
      <p className="quiet small">
        {entry.action} ·{" "}
        {to === undefined ? (
          <span className="id">
            <UntrustedText text={entry.target_id} />
          </span>
        ) : (
          <Link to={to} className="id">
            {entry.target_id}
          </Link>
        )}
      </p>
      {Object.keys(entry.detail).length === 0 ? null : (
        <details>
          <summary>Details</summary>
          <JsonTree label="Details" value={entry.detail} />
        </details>
      )}
    </li>
  )
}
