import { DateTime, Effect, Schema } from "effect"
import { ListOrder } from "../../../api/listQuery.ts"
import { Atom } from "effect/reactivity"
import { useId, useState } from "react"
import { AuditActions, auditSubjects, type AuditRow } from "../../../api/console/AuditRows.ts"
import { AuditAction } from "../../../domain/identity/AuditEntry.ts"
import { type AuditEntryId, KeyId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { useAtomValue } from "../../state/atoms.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { defineQuery, QueryDay, QueryText, startOfDay } from "../../state/queryState.ts"
import { Button } from "../../ui/Button.tsx"
import { Checkbox } from "../../ui/Checkbox.tsx"
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
import { plainLine } from "../../ui/plainLine.ts"
import { SearchField } from "../../ui/SearchField.tsx"
import { InlineSelect } from "../../ui/Select.tsx"
import { countFilters, Toolbar } from "../../ui/Toolbar.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { auditPhrase, auditPhrases } from "./auditPhrases.ts"

/** The filters of the list, in the address. */
const parameters = defineQuery({
  action: AuditActions,
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
      consoleClient.audit_rows.list({
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

/** The people who have entries. */
const actorsAtom = Atom.make(Effect.map(consoleClient.audit_rows.actors(), ({ actors }) => actors))

const encodeActions = Schema.encodeSync(AuditActions)

/** The filters as the query of an export. */
const exportFilter = ({ action, actor, from, order, target, text, until }: Filters) => ({
  action: action === undefined ? undefined : encodeActions(action),
  actor_id: actor,
  target_id: target?.trim(),
  text: text?.trim(),
  order,
  occurred_after: from === undefined ? undefined : DateTime.formatIso(startOfDay(from)),
  occurred_before: until === undefined ? undefined : DateTime.formatIso(startOfDay(until, 1))
})

/** The page of an entry's target; undefined for a target without one. */
const targetPage = ({ action, target_id: target }: AuditRow): string | undefined => {
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
        {...(filters.order === "oldest" ? {} : { itemId: ({ id }: AuditRow) => id })}
      >
        {(entries, hasMore) =>
          entries.length === 0 && (hasMore || filters.text !== undefined) ? (
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
  <Toolbar label="Filters" filters={countFilters(action, actor, from, until, text, target, order)}>
    <ActionsFilter chosen={action ?? []} onChange={(chosen) => setQuery({ action: chosen })} />
    <ActorFilter actor={actor} onChange={(chosen) => setQuery({ actor: chosen })} />
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
  </Toolbar>
)

/** A choice of any actions, grouped by subject; none chosen lists all. */
const ActionsFilter = ({
  chosen,
  onChange
}: {
  readonly chosen: ReadonlyArray<AuditAction>
  readonly onChange: (chosen: ReadonlyArray<AuditAction> | undefined) => void
}) => {
  const [first, ...others] = chosen
  const set = (actions: ReadonlyArray<AuditAction>, isChosen: boolean) => {
    const kept = chosen.filter((action) => !actions.includes(action))
    const next = isChosen ? [...kept, ...actions] : kept
    onChange(next.length === 0 ? undefined : next)
  }
  return (
    <details className="dropdown">
      <summary className="button plain">
        {first === undefined
          ? "All actions"
          : others.length === 0
            ? auditPhrases[first]
            : `${chosen.length} actions`}
      </summary>
      <div className="dropdown-body card padded">
        <div className="row-actions">
          <Button small disabled={chosen.length === 0} onClick={() => onChange(undefined)}>
            All actions
          </Button>
          <Button
            small
            onClick={() => onChange(AuditAction.literals.filter((action) => !action.startsWith("console.")))}
          >
            All but sign-ins
          </Button>
          <Button
            small
            onClick={() => onChange(AuditAction.literals.filter((action) => action.startsWith("approval.")))}
          >
            Decisions
          </Button>
        </div>
        {[...auditSubjects].map(([subject, actions]) => (
          <fieldset key={subject}>
            <legend>
              <Checkbox
                checked={actions.every((action) => chosen.includes(action))}
                onChange={(isChecked) => set(actions, isChecked)}
              >
                <strong>{subject.replaceAll("_", " ")}</strong>
              </Checkbox>
            </legend>
            {actions.map((action) => (
              <Checkbox
                key={action}
                checked={chosen.includes(action)}
                onChange={(isChecked) => set([action], isChecked)}
              >
                {auditPhrases[action]}
              </Checkbox>
            ))}
          </fieldset>
        ))}
      </div>
    </details>
  )
}

/** A choice of one person or any. */
const ActorFilter = ({
  actor,
  onChange
}: {
  readonly actor: KeyId | undefined
  readonly onChange: (actor: KeyId | undefined) => void
}) => {
  const result = useAtomValue(actorsAtom)
  const actors = result._tag === "Success" ? result.value : []
  return (
    <InlineSelect
      isLabelHidden
      label="Person"
      value={actor}
      options={[
        [undefined, "All people"],
        ...actors.map(({ id, name }) => [id, plainLine(name, MAX_NAME)] as const)
      ]}
      onChange={onChange}
    />
  )
}

/** The most characters of a name in the choice of people. */
const MAX_NAME = 60

const Entry = ({
  entry,
  onActor
}: {
  readonly entry: AuditRow
  /** Lists the entries of one key only. */
  readonly onActor: (id: KeyId) => void
}) => {
  const { actor } = entry
  const [isOpen, setOpen] = useState(false)
  const id = useId()
  const to = targetPage(entry)
  const { target } = entry
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
          {target === null || entry.target_id === actor?.id ? (
            <Facts entry={entry} />
          ) : (
            <>
              {": "}
              {to === undefined ? (
                <UntrustedText text={target.name} />
              ) : (
                <Link to={to}>
                  <UntrustedText text={target.name} />
                </Link>
              )}
              {target.summary === null ? null : (
                <span className="quiet">
                  {" "}
                  · <UntrustedText text={target.summary} />
                </span>
              )}
            </>
          )}
        </p>
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
      {target === null || target.comment === null || target.comment === "" ? null : (
        <blockquote className="entry-comment">
          <UntrustedText text={target.comment} />
        </blockquote>
      )}
      {isOpen ? (
        <div id={id} className="stack">
          <p className="small entry-target">
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
          </p>
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

/** The first details of an entry whose target has no name. */
const Facts = ({ entry }: { readonly entry: AuditRow }) =>
  summarizeJson(entry.detail).map((fact) => (
    <span key={fact} className="quiet">
      {" "}
      · <UntrustedText text={fact} />
    </span>
  ))
