import { Record } from "effect"
import type { ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { useLoadedItems } from "../../state/pagedAtom.ts"
import type { QueryState } from "../../state/queryState.ts"
import { releasesAtom } from "../../state/tasks.ts"
import { useCan } from "../../state/session.ts"
import { InlineSelect } from "../../ui/Select.tsx"
import { Button } from "../../ui/Button.tsx"
import { DayField } from "../../ui/DayField.tsx"
import { SearchField } from "../../ui/SearchField.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { countFilters, Toolbar } from "../../ui/Toolbar.tsx"
import type { SetQuery } from "../../ui/useQueryState.ts"
import { TaskFilter } from "../feedback/Filters.tsx"
import { feedbackChoices, isFiltered, type RunQueryFields, unfiltered } from "../../state/runFilter.ts"

/** Least durations to choose from, in milliseconds; others are in the address. */
const DURATIONS = [500, 1_000, 2_000, 5_000, 10_000, 30_000]

const durationText = (millis: number): string => `${(millis / 1_000).toLocaleString("en")} s or longer`

/** The filters of the list of runs. `task`: the list is of one task. */
export const RunFilters = ({
  query,
  setQuery,
  task
}: {
  readonly query: QueryState<RunQueryFields>
  readonly setQuery: SetQuery<RunQueryFields>
  readonly task: TaskId | undefined
}) => {
  const can = useCan()
  const { feedback, from, q, release, slow, source, status, to } = query
  const chosenTask = task ?? query.task
  const durations =
    slow === undefined || DURATIONS.includes(slow)
      ? DURATIONS
      : [...DURATIONS, slow].toSorted((a, b) => a - b)
  return (
    <Toolbar
      label="Filters of runs"
      filters={countFilters(
        q,
        task === undefined ? query.task : undefined,
        release,
        feedback,
        slow,
        source,
        from,
        to
      )}
    >
      <Tabs
        label="Outcome"
        selected={status ?? "all"}
        onSelect={(name) => setQuery({ status: name === "all" ? undefined : name })}
        options={[
          ["all", "All"],
          ["succeeded", "Answered"],
          ["failed", "Failed"]
        ]}
      />
      <SearchField
        label="Text in the input, answer or failure"
        placeholder="Text in input or answer"
        text={q ?? ""}
        onSearch={(text) => setQuery({ q: text === "" ? undefined : text }, { replace: true })}
      />
      {task === undefined && can("tasks.read") ? (
        <TaskFilter task={query.task} onChange={(id) => setQuery({ task: id, release: undefined })} />
      ) : null}
      {chosenTask !== undefined && can("tasks.read") ? (
        <ReleaseFilter task={chosenTask} release={release} onChoose={(id) => setQuery({ release: id })} />
      ) : null}
      <InlineSelect
        label="Feedback"
        value={feedback}
        options={[
          [undefined, "any"],
          ...Record.keys(feedbackChoices).map((name) => [name, feedbackChoices[name][0]] as const)
        ]}
        onChange={(value) => setQuery({ feedback: value })}
      />
      <InlineSelect
        label="Duration"
        value={slow}
        options={[[undefined, "any"], ...durations.map((millis) => [millis, durationText(millis)] as const)]}
        onChange={(value) => setQuery({ slow: value })}
      />
      <InlineSelect
        label="Answered by"
        value={source}
        options={[
          [undefined, "any"],
          ["provider", "the provider"],
          ["logged", "the client"]
        ]}
        onChange={(value) => setQuery({ source: value })}
      />
      <DayField label="From" day={from} onChange={(day) => setQuery({ from: day })} />
      <DayField label="Until" day={to} onChange={(day) => setQuery({ to: day })} />
      {isFiltered(query) ? (
        <Button small onClick={() => setQuery(unfiltered)}>
          Clear filters
        </Button>
      ) : null}
    </Toolbar>
  )
}

const releaseDay = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" })

/** A choice of the task's releases, newest first: the first page of them. */
const ReleaseFilter = ({
  onChoose,
  release,
  task
}: {
  readonly task: TaskId
  readonly release: ReleaseId | undefined
  readonly onChoose: (release: ReleaseId | undefined) => void
}) => {
  const releases = useLoadedItems(releasesAtom(task))
  return (
    <InlineSelect
      label="Release"
      value={release}
      options={[
        [undefined, "any"],
        ...releases.map(
          ({ created_at, id, provider }, index) =>
            [
              id,
              `${releaseDay.format(created_at.epochMilliseconds)}${index === 0 ? ", live" : ""} · ${
                provider.kind === "examples" ? "nearest example" : provider.model.slice(0, 40)
              }`
            ] as const
        )
      ]}
      onChange={onChoose}
    />
  )
}
