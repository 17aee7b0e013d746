import { DateTime } from "effect"
import { ListOrder } from "../../../api/listQuery.ts"
import { Atom } from "effect/reactivity"
import { useId, useState } from "react"
import { AuditAction, type AuditEntry } from "../../../domain/identity/AuditEntry.ts"
import { type AuditEntryId, KeyId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { apiClient } from "../../state/apiClient.ts"
import { defineQuery, QueryDay, QueryText, startOfDay } from "../../state/queryState.ts"
import { Button } from "../../ui/Button.tsx"
import { DayField } from "../../ui/DayField.tsx"
import { CopyButton } from "../../ui/CopyButton.tsx"
import { NoMatches } from "../../ui/NoMatches.tsx"
import { OrderField } from "../../ui/OrderField.tsx"
import { summarizeJson } from "../../ui/summarizeJson.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { SavedViews } from "../../ui/SavedViews.tsx"
import { SearchField } from "../../ui/SearchField.tsx"
import { Toolbar } from "../../ui/Toolbar.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { auditPhrase, auditPhrases } from "./auditPhrases.ts"

/** The filters of the list, in the address. */
const parameters = defineQuery({
  action: AuditAction,
  actor: KeyId,
  target: QueryText,
  from: QueryDay,
  until: QueryDay,
  text: QueryText,
  order: ListOrder
})
type Filters = ReturnType<typeof parameters.read>

const entriesAtom = Atom.family((filters: string) => {
  const { action, actor, from, order, target, text, until } = parameters.read(filters)
  return pagedAtom(
    (cursor: AuditEntryId | undefined) =>
      apiClient.auditLog.list({
        query: {
          ...(action === undefined ? {} : { action }),
          ...(actor === undefined ? {} : { actor_id: actor }),
          ...(target === undefined ? {} : { target_id: target.trim() }),
          ...(from === undefined ? {} : { occurred_after: startOfDay(from) }),
          ...(until === undefined ? {} : { occurred_before: startOfDay(until, 1) }),
          ...(text === undefined ? {} : { text: text.trim() }),
          ...(order === undefined ? {} : { order }),
          ...(cursor === undefined ? {} : { cursor })
        }
      }),
    "entries"
  )
})

/** The filters as the query of an export. */
const exportFilter = ({ action, actor, from, order, target, text, until }: Filters) => ({
  action,
  actor_id: actor,
  target_id: target?.trim(),
  text: text?.trim(),
  order,
  occurred_after: from === undefined ? undefined : DateTime.formatIso(startOfDay(from)),
  occurred_before: until === undefined ? undefined : DateTime.formatIso(startOfDay(until, 1))
})

/** The page of an entry's target; undefined for a target without one. */
const targetPage = ({ action, target_id: target }: AuditEntry): string | undefined => {
  if (target.startsWith("key_"))
    return action.startsWith("person.") ? `/people?person=${target}` : `/keys?key=${target}`
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

/** The audit log, newest entry first, with its filters in the address. */
export default function Audit() {
  const [filters, setQuery] = useQueryState(parameters)
  const list = parameters.write("", filters)
  return (
    <>
      <PageHeader title="Audit log" aside={<ExportButton path="/audit-log" filter={exportFilter(filters)} />}>
        Changes to access, destinations and rules, and every decision. Entries cannot be edited.
      </PageHeader>
      <FilterBar filters={filters} setQuery={setQuery} />
      <SavedViews list="audit" />
      <PagedList
        key={list}
        atom={entriesAtom(list)}
        {...(filters.order === "oldest" ? {} : { itemId: ({ id }: AuditEntry) => id })}
      >
        {(entries, hasMore) =>
          entries.length === 0 && filters.text !== undefined ? (
            <NoMatches title="No matching entries" hasMore={hasMore} />
          ) : entries.length === 0 ? (
            <EmptyState title="No matching entries" />
          ) : (
            <ul className="card entries">
              {entries.map((entry) => (
                <Entry key={entry.id} entry={entry} onActor={(actor) => setQuery({ actor })} />
              ))}
            </ul>
          )
        }
      </PagedList>
    </>
  )
}

const FilterBar = ({
  filters: { action, actor, from, order, target, text, until },
  setQuery
}: {
  readonly filters: Filters
  readonly setQuery: (change: Partial<Filters>, options?: { readonly replace?: boolean }) => void
}) => (
  <Toolbar label="Filters">
    <label className="inline-field">
      <span>Action</span>
      <select
        value={action ?? ""}
        onChange={({ target }) =>
          setQuery({ action: AuditAction.literals.find((one) => one === target.value) })
        }
      >
        <option value="">All actions</option>
        {AuditAction.literals.map((one) => (
          <option key={one} value={one}>
            {auditPhrases[one]}
          </option>
        ))}
      </select>
    </label>
    <DayField label="From" day={from} onChange={(day) => setQuery({ from: day })} />
    <DayField label="Until" day={until} onChange={(day) => setQuery({ until: day })} />
    <SearchField
      label="Search entries"
      placeholder="Words of an entry"
      text={text ?? ""}
      onSearch={(words) => setQuery({ text: words === "" ? undefined : words }, { replace: true })}
    />
    <SearchField
      label="ID of a record"
      text={target ?? ""}
      onSearch={(text) => setQuery({ target: text === "" ? undefined : text }, { replace: true })}
    />
    <OrderField order={order} onChange={(chosen) => setQuery({ order: chosen })} />
    {actor === undefined ? null : (
      <Button small onClick={() => setQuery({ actor: undefined })}>
        Only by {actor} <span aria-hidden="true">×</span>
        <span className="visually-hidden"> (remove)</span>
      </Button>
    )}
  </Toolbar>
)

const Entry = ({
  entry,
  onActor
}: {
  readonly entry: AuditEntry
  /** Lists the entries of one key only. */
  readonly onActor: (id: KeyId) => void
}) => {
  const { actor } = entry
  const [isOpen, setOpen] = useState(false)
  const id = useId()
  const to = targetPage(entry)
  const summary = summarizeJson(entry.detail)
  return (
    <li className="entry">
      <div className="entry-line">
        <p>
          {actor === null ? (
            <strong>Operator</strong>
          ) : (
            <button
              type="button"
              className="link strong"
              title="Only entries of this key"
              onClick={() => onActor(actor.id)}
            >
              <UntrustedText text={actor.name} />
            </button>
          )}{" "}
          {auditPhrase(entry)}
          {summary.map((fact) => (
            <span key={fact} className="quiet">
              {" "}
              · <UntrustedText text={fact} />
            </span>
          ))}
        </p>
        <span className="small entry-target">
          {to === undefined ? (
            <span className="id">
              <UntrustedText text={entry.target_id} />
            </span>
          ) : (
            <Link to={to} className="id">
              {entry.target_id}
            </Link>
          )}
          <CopyButton label="Copy the target ID" text={entry.target_id} />
        </span>
        <span className="quiet small entry-time">
          <AbsoluteTime time={entry.occurred_at} />
        </span>
        <button
          type="button"
          className="link small"
          aria-expanded={isOpen}
          aria-controls={id}
          onClick={() => setOpen(!isOpen)}
        >
          Details<span className="visually-hidden"> of the entry of {actor?.name ?? "the operator"}</span>
        </button>
      </div>
      {isOpen ? (
        <div id={id} className="stack">
          <p className="quiet small">
            {entry.action}
            {entry.request_id === null ? null : (
              <>
                {" "}
                · request <span className="id">{entry.request_id}</span>
              </>
            )}
          </p>
          {Object.keys(entry.detail).length === 0 ? null : (
            <JsonTree label="Details" value={entry.detail} unfolded />
          )}
        </div>
      ) : null}
    </li>
  )
}
