import { Schema } from "effect"
import { lazy, Suspense } from "react"
import { TaskId } from "../../../domain/Ids.ts"
import type { Task as TaskModel } from "../../../domain/tasks/Task.ts"
import { PageTitle } from "../../app/PageTitle.tsx"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { useCan } from "../../state/session.ts"
import { taskAtom } from "../../state/tasks.ts"
import { CopyRecord } from "../../ui/CopyRecord.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { RunList } from "../runs/RunList.tsx"
import { Comparisons } from "./Comparisons.tsx"
import { Datasets } from "./Datasets.tsx"
import { DatasetLink } from "./DatasetLink.tsx"
import { ReleaseLink } from "./ReleaseLink.tsx"
import { Releases } from "./Releases.tsx"
import { Skeleton } from "../../ui/Skeleton.tsx"
import { SchemaWarnings } from "./SchemaWarnings.tsx"

const Playground = lazy(async () => ({ default: (await import("./Playground.tsx")).Playground }))

const isTaskId = Schema.is(TaskId)

/** One task: overview, runs, dataset versions, comparisons and releases. */
export default function Task({ params }: PageProps) {
  const id = params["id"]
  return isTaskId(id) ? <LoadedTask id={id} tab={params["tab"]} /> : <EmptyState title="Task not found" />
}

const allTabs = [
  ["overview", "Overview"],
  ["runs", "Runs"],
  ["datasets", "Datasets"],
  ["comparisons", "Comparisons"],
  ["releases", "Releases"],
  ["playground", "Playground"]
] as const

const LoadedTask = ({ id, tab: wanted }: { readonly id: TaskId; readonly tab: string | undefined }) => {
  const can = useCan()
  const tabs = allTabs.filter(
    ([name]) =>
      (name !== "datasets" || can("datasets.read")) &&
      (name !== "runs" || can("runs.read")) &&
      (name !== "playground" || can("tasks.write"))
  )
  const tab = tabs.find(([name]) => name === wanted)?.[0] ?? "overview"
  return (
    <AsyncContent atom={taskAtom(id)}>
      {(task) => (
        <div className="stack">
          <PageTitle parts={[task.name]} />
          <p>
            <Link to="/tasks">← All tasks</Link>
          </p>
          <PageHeader
            title={<UntrustedText text={task.name} />}
            aside={
              <Tabs
                label="Sections"
                selected={tab}
                onSelect={(name) => navigate(`/tasks/${id}/${name}`, { replace: true })}
                hrefOf={(name) => `/tasks/${id}/${name}`}
                options={tabs}
              />
            }
          >
            <CopyRecord id={task.id} of="task" path={`/v1/tasks/${task.id}`} />
          </PageHeader>
          {tab === "overview" ? (
            <Overview task={task} />
          ) : tab === "runs" ? (
            <RunList task={task} />
          ) : tab === "datasets" ? (
            <Datasets task={task} />
          ) : tab === "comparisons" ? (
            <Comparisons task={task} />
          ) : tab === "playground" ? (
            <Suspense fallback={<Skeleton />}>
              <Playground task={task} />
            </Suspense>
          ) : (
            <Releases task={task} />
          )}
        </div>
      )}
    </AsyncContent>
  )
}

const Overview = ({ task }: { readonly task: TaskModel }) => {
  const can = useCan()
  return (
    <div className="two-columns">
      <div className="stack">
        <section className="card padded stack">
          <h2>Instructions</h2>
          {task.instructions === "" ? (
            <p className="quiet">None.</p>
          ) : (
            <p className="prose">
              <UntrustedText text={task.instructions} />
            </p>
          )}
        </section>
        <section className="card padded stack">
          <h2>Input schema</h2>
          <JsonTree label="Input schema" value={task.input_schema} />
          <SchemaWarnings schema={task.input_schema} />
        </section>
        <section className="card padded stack">
          <h2>Answer schema</h2>
          <JsonTree label="Answer schema" value={task.answer_schema} />
          <SchemaWarnings schema={task.answer_schema} />
        </section>
      </div>
      <aside className="card padded stack">
        <h2>Configuration</h2>
        <dl className="facts">
          <div>
            <dt>Provider</dt>
            <dd>
              {task.provider.kind === "examples" ? (
                "Nearest example of its dataset"
              ) : (
                <>
                  <UntrustedText text={task.provider.model} />
                  <div className="quiet small">
                    <UntrustedText text={task.provider.base_url} />
                  </div>
                </>
              )}
            </dd>
          </div>
          {task.provider.kind === "examples" ? null : (
            <>
              <div>
                <dt>Provider API key</dt>
                <dd>{task.provider_key_set ? "Stored, encrypted" : "none"}</dd>
              </div>
              <div>
                <dt>Extra headers</dt>
                <dd>{task.provider_headers_set ? "Stored, encrypted" : "none"}</dd>
              </div>
            </>
          )}
          <div>
            <dt>Live release</dt>
            <dd>
              <ReleaseLink task={task.id} id={task.live_release_id} />
            </dd>
          </div>
          <div>
            <dt>Dataset</dt>
            <dd>{task.dataset_id === null ? "none" : <DatasetLink task={task.id} id={task.dataset_id} />}</dd>
          </div>
          {can("feedback.read") ? (
            <div>
              <dt>Feedback</dt>
              <dd>
                <Link to={`/feedback/task/${task.id}`}>Review feedback</Link>
              </dd>
            </div>
          ) : null}
          <div>
            <dt>Sampled for review</dt>
            <dd>
              {task.review_share === 0
                ? "no runs"
                : `${(task.review_share * 100).toLocaleString("en")} % of runs`}
            </dd>
          </div>
          <div>
            <dt>Created</dt>
            <dd>
              <AbsoluteTime time={task.created_at} /> by <UntrustedText text={task.created_by.name} />
            </dd>
          </div>
        </dl>
        <p className="quiet small">
          Instructions and provider belong to the working copy, which the next comparison tests. The live
          release does not change.
        </p>
        {can("tasks.write") ? (
          <p>
            <Link className="button" to={`/tasks/${task.id}/edit`}>
              Edit working copy
            </Link>
          </p>
        ) : null}
      </aside>
    </div>
  )
}
