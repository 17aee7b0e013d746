import { Schema } from "effect"
import { TaskId } from "../../../domain/Ids.ts"
import type { Task as TaskModel } from "../../../domain/tasks/Task.ts"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { useCan } from "../../state/session.ts"
import { taskAtom } from "../../state/tasks.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { Comparisons } from "./Comparisons.tsx"
import { Datasets } from "./Datasets.tsx"
import { Releases } from "./Releases.tsx"

const isTaskId = Schema.is(TaskId)

/** One task: what it is, the versions of its dataset, what was compared and what was released. */
export default function Task({ params }: PageProps) {
  const id = params["id"]
  return isTaskId(id) ? (
    <LoadedTask id={id} tab={params["tab"]} />
  ) : (
    <EmptyState title="There is no such task" />
  )
}

const allTabs = [
  ["about", "About"],
  ["datasets", "Datasets"],
  ["comparisons", "Comparisons"],
  ["releases", "Releases"]
] as const

const LoadedTask = ({ id, tab: wanted }: { readonly id: TaskId; readonly tab: string | undefined }) => {
  const result = useAtomValue(taskAtom(id))
  const can = useCan()
  const tabs = allTabs.filter(([name]) => name !== "datasets" || can("datasets.read"))
  const tab = tabs.find(([name]) => name === wanted)?.[0] ?? "about"
  return (
    <AsyncContent result={result} atom={taskAtom(id)}>
      {(task) => (
        <div className="stack">
          <p>
            <Link to="/tasks">← All tasks</Link>
          </p>
          <PageHeader
            title={<UntrustedText text={task.name} />}
            aside={
              <Tabs
                label="Of the task"
                chosen={tab}
                onChoose={(name) => navigate(`/tasks/${id}/${name}`, { replace: true })}
                options={tabs}
              />
            }
          >
            <span className="id">{task.id}</span>
          </PageHeader>
          {tab === "about" ? (
            <About task={task} />
          ) : tab === "datasets" ? (
            <Datasets task={task} />
          ) : tab === "comparisons" ? (
            <Comparisons task={task} />
          ) : (
            <Releases task={task} />
          )}
        </div>
      )}
    </AsyncContent>
  )
}

const About = ({ task }: { readonly task: TaskModel }) => {
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
          <h2>The shape of inputs</h2>
          <JsonTree label="The shape of inputs" value={task.input_schema} />
        </section>
        <section className="card padded stack">
          <h2>The shape of answers</h2>
          <JsonTree label="The shape of answers" value={task.answer_schema} />
        </section>
      </div>
      <aside className="card padded stack">
        <h2>At work</h2>
        <dl className="facts">
          <div>
            <dt>Answered by</dt>
            <dd>
              {task.provider.kind === "examples" ? (
                "the nearest example of its dataset"
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
            <div>
              <dt>Its key</dt>
              <dd>{task.provider_key_set ? "is kept, sealed" : "none"}</dd>
            </div>
          )}
          <div>
            <dt>Live release</dt>
            <dd>
              <Link to={`/tasks/${task.id}/releases`}>what it is, and those before</Link>
            </dd>
          </div>
          <div>
            <dt>Dataset</dt>
            <dd>
              {task.dataset_id === null ? (
                "none yet"
              ) : can("datasets.read") ? (
                <Link to={`/datasets/${task.dataset_id}`}>newest version</Link>
              ) : (
                <span className="id">{task.dataset_id}</span>
              )}
            </dd>
          </div>
          {can("feedback.read") ? (
            <div>
              <dt>Feedback</dt>
              <dd>
                <Link to={`/feedback/task/${task.id}`}>to review</Link>
              </dd>
            </div>
          ) : null}
          <div>
            <dt>Made</dt>
            <dd>
              <AbsoluteTime time={task.created_at} /> by <UntrustedText text={task.created_by.name} />
            </dd>
          </div>
        </dl>
        <p className="quiet small">
          Instructions and provider are the working copy: what the next comparison tries. What is live stays
          as it was released.
        </p>
        {can("tasks.write") ? (
          <p>
            <Link className="button" to={`/tasks/${task.id}/edit`}>
              Change the working copy
            </Link>
          </p>
        ) : null}
      </aside>
    </div>
  )
}
