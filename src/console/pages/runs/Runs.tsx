import { Record } from "effect"
import { useState } from "react"
import type { RunRecord } from "../../../domain/tasks/Run.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { Link } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { type RunFilterName, runFilters, runsAtom } from "../../state/runs.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { summarizeJson } from "../../ui/summarizeJson.ts"
import { Table } from "../../ui/Table.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

const filterNames = Object.keys(runFilters).filter((name): name is RunFilterName => name in runFilters)

/** A task's runs, newest first, with a filter and a text search. */
export const Runs = ({ task }: { readonly task: Task }) => {
  const [filter, setFilter] = useState<RunFilterName>("all")
  const [draft, setDraft] = useState("")
  const [text, setText] = useState("")
  const atom = runsAtom({ task_id: task.id, filter, text })
  return (
    <div className="stack">
      <form
        className="filters"
        role="search"
        onSubmit={(event) => {
          event.preventDefault()
          setText(draft.trim())
        }}
      >
        <label className="inline-field">
          <span className="visually-hidden">Runs</span>
          <select
            value={filter}
            onChange={({ target }) => {
              const chosen = filterNames.find((name) => name === target.value)
              if (chosen !== undefined) setFilter(chosen)
            }}
          >
            {filterNames.map((name) => (
              <option key={name} value={name}>
                {runFilters[name][0]}
              </option>
            ))}
          </select>
        </label>
        <label className="inline-field">
          <span className="visually-hidden">Text in the input or answer</span>
          <input
            type="search"
            placeholder="Text in the input or answer"
            maxLength={200}
            value={draft}
            onChange={({ target }) => setDraft(target.value)}
          />
        </label>
        <Button type="submit">Search</Button>
        <Button onClick={() => refresh(atom)}>Reload</Button>
        <ExportButton path={`/tasks/${task.id}/runs`} filter={exportFilter(filter, text)} />
      </form>
      <PagedList atom={atom}>
        {(runs) =>
          runs.length === 0 ? (
            <EmptyState title={filter === "review" ? "No runs to review" : "No runs found"}>
              {filter === "review" && task.review_share === 0
                ? "No runs are sampled: the task's share of runs for review is 0."
                : undefined}
            </EmptyState>
          ) : (
            <Table columns={["Input", "Answer", "Answered by", "Started"]}>
              {runs.map((run) => (
                <Row key={run.trace_id} run={run} />
              ))}
            </Table>
          )
        }
      </PagedList>
    </div>
  )
}

/** The filter and the text as the query of an export. */
const exportFilter = (filter: RunFilterName, text: string): Readonly<Record<string, string | undefined>> => ({
  ...Record.map(runFilters[filter][1] as Readonly<Record<string, string | number | boolean>>, String),
  text: text === "" ? undefined : text
})

const Row = ({ run }: { readonly run: RunRecord }) => (
  <tr>
    <td>
      <Link to={`/runs/${run.trace_id}`}>
        <Summary facts={summarizeJson(run.input)} />
      </Link>
    </td>
    <td>
      {run.answer === null ? <Badge tone="bad">Failed</Badge> : <Summary facts={summarizeJson(run.answer)} />}
      {run.awaits_review ? <Badge tone="wait">Review</Badge> : null}
    </td>
    <td>
      <UntrustedText text={answeredBy(run)} />
    </td>
    <td>
      <RelativeTime time={run.created_at} />
    </td>
  </tr>
)

const Summary = ({ facts }: { readonly facts: ReadonlyArray<string> }) =>
  facts.length === 0
    ? "{ }"
    : facts.map((fact) => (
        <span key={fact} className="fact">
          <UntrustedText text={fact} />
        </span>
      ))

/** Who answered a run, in a few words. */
export const answeredBy = ({ model, source }: Pick<RunRecord, "model" | "source">): string =>
  model === null ? "the client" : source === "logged" ? `${model}, called by the client` : model
