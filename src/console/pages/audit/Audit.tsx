import { Atom } from "effect/reactivity"
import { useState } from "react"
import { AuditAction, type AuditEntry } from "../../../domain/identity/AuditEntry.ts"
import type { AuditEntryId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { pagesOf } from "../../state/pages.ts"
import { service } from "../../state/service.ts"
import { Empty } from "../../ui/Empty.tsx"
import { Json } from "../../ui/Json.tsx"
import { PageHead } from "../../ui/PageHead.tsx"
import { Pages } from "../../ui/Pages.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { At } from "../../ui/Time.tsx"
import { said, words } from "./words.ts"

const entriesAtom = Atom.family((action: AuditAction | undefined) =>
  pagesOf(
    (cursor: AuditEntryId | undefined) =>
      service.audit_log.list({
        query: { ...(action === undefined ? {} : { action }), ...(cursor === undefined ? {} : { cursor }) }
      }),
    "entries"
  )
)

/** Where the thing that an entry is about can be looked at, if it can. */
const pageOf = (target: string): string | undefined => {
  if (target.startsWith("apr_")) return `/approvals/${target}`
  if (target.startsWith("ses_")) return `/sessions/${target}`
  if (target.startsWith("nep_")) return `/endpoints/${target}`
  if (target.startsWith("tel_")) return "/telemetry"
  if (target.startsWith("tsk_")) return `/tasks/${target}`
  if (target.startsWith("dst_")) return `/datasets/${target}`
  if (target.startsWith("cmp_")) return `/comparisons/${target}`
  if (target.startsWith("fbk_")) return `/feedback/${target}`
  return undefined
}

/** Who did what, newest first. */
export default function Audit() {
  const [action, setAction] = useState<AuditAction>()
  return (
    <>
      <PageHead
        title="Audit log"
        aside={
          <label className="inline-field">
            <span>Show</span>
            <select
              value={action ?? ""}
              onChange={({ target }) => setAction(AuditAction.literals.find((one) => one === target.value))}
            >
              <option value="">everything</option>
              {AuditAction.literals.map((one) => (
                <option key={one} value={one}>
                  {words[one]}
                </option>
              ))}
            </select>
          </label>
        }
      >
        Every change of who may do what, where things are sent and what was decided. Entries are never
        changed.
      </PageHead>
      <Pages key={action} atom={entriesAtom(action)}>
        {(entries) =>
          entries.length === 0 ? (
            <Empty title="Nothing of this kind was done yet" />
          ) : (
            <ul className="card entries">
              {entries.map((entry) => (
                <Entry key={entry.id} entry={entry} />
              ))}
            </ul>
          )
        }
      </Pages>
    </>
  )
}

const Entry = ({ entry }: { readonly entry: AuditEntry }) => {
  const to = pageOf(entry.target_id)
  return (
    <li className="entry">
      <div className="entry-head">
        <p>
          <strong>{entry.actor === null ? "The operator" : <Safe text={entry.actor.name} />}</strong>{" "}
          {said(entry)}
        </p>
        <span className="quiet small">
          <At time={entry.occurred_at} />
        </span>
      </div>
      <p className="quiet small">
        {entry.action} ·{" "}
        {to === undefined ? (
          <span className="id">
            <Safe text={entry.target_id} />
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
          <Json label="Details" value={entry.detail} />
        </details>
      )}
    </li>
  )
}
