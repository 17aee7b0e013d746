import { Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import { CONSOLE_API_PATH } from "../../../api/Console.ts"
import type { Dataset as DatasetModel } from "../../../domain/tasks/Dataset.ts"
import { DatasetId, type ExampleId } from "../../../domain/Ids.ts"
import { Link, navigate } from "../../app/router.tsx"
import { TaskPageTitle } from "../../app/TaskPageTitle.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh } from "../../state/atoms.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { datasetsAtom, taskAtom } from "../../state/tasks.ts"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { CopyRecord } from "../../ui/CopyRecord.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { InlineSelect } from "../../ui/Select.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { withPageToken } from "../../state/pageToken.ts"
import { DatasetDifferences, ExampleSource } from "./DatasetDifferences.tsx"

const datasetAtom = Atom.family((id: DatasetId) => Atom.make(apiClient.datasets.get({ params: { id } })))

const examplesAtom = Atom.family((id: DatasetId) =>
  pagedAtom(
    (cursor: ExampleId | undefined) =>
      apiClient.datasets.listExamples({
        params: { id },
        query: { limit: 20, ...(cursor === undefined ? {} : { cursor }) }
      }),
    "examples"
  )
)

const isDatasetId = Schema.is(DatasetId)

/** One dataset version: its examples, and its differences from an earlier version. */
export default function Dataset({ params }: PageProps) {
  const id = params["id"]
  return isDatasetId(id) ? (
    <LoadedDataset key={id} id={id} />
  ) : (
    <EmptyState title="Dataset version not found" />
  )
}

const LoadedDataset = ({ id }: { readonly id: DatasetId }) => {
  const [tab, setTab] = useState<"changes" | "examples">()
  return (
    <AsyncContent atom={datasetAtom(id)}>
      {(dataset) => {
        const selected = tab ?? (dataset.base_dataset_id === null ? "examples" : "changes")
        return (
          <div className="stack">
            <TaskPageTitle record={`Version ${dataset.version}`} task_id={dataset.task_id} />
            <p>
              <Link to={`/tasks/${dataset.task_id}/datasets`}>← Task datasets</Link>
            </p>
            <PageHeader
              title={`Version ${dataset.version}`}
              aside={
                <>
                  <a
                    className="button"
                    href={withPageToken(`${CONSOLE_API_PATH}/v1/datasets/${dataset.id}/export`)}
                    download={`dataset-version-${dataset.version}.jsonl`}
                  >
                    Export as JSON Lines
                  </a>
                  {dataset.base_dataset_id === null ? null : (
                    <Tabs
                      label="View"
                      selected={selected}
                      onSelect={setTab}
                      options={[
                        ["changes", "Differences"],
                        ["examples", "Examples"]
                      ]}
                    />
                  )}
                </>
              }
            >
              {dataset.example_count.toLocaleString("en")} examples · created by{" "}
              <UntrustedText text={dataset.created_by.name} /> · <AbsoluteTime time={dataset.created_at} />
              <br />
              <CopyRecord id={dataset.id} of="dataset version" path={`/v1/datasets/${dataset.id}`} />
            </PageHeader>
            {selected === "examples" || dataset.base_dataset_id === null ? (
              <Examples dataset={dataset} />
            ) : (
              <Changes dataset={dataset} base={dataset.base_dataset_id} />
            )}
          </div>
        )
      }}
    </AsyncContent>
  )
}

const Examples = ({ dataset }: { readonly dataset: DatasetModel }) => {
  const can = useCan()
  return (
    <PagedList atom={examplesAtom(dataset.id)}>
      {(examples) => (
        <>
          <h2 className="visually-hidden">Examples</h2>
          <ul className="cards">
            {examples.map((example) => (
              <li key={example.id} className="card padded stack">
                <div className="side-by-side">
                  <div>
                    <h3>Input</h3>
                    <JsonTree label="Input" value={example.input} />
                  </div>
                  <div>
                    <h3>Expected answer</h3>
                    <JsonTree label="Expected answer" value={example.answer} />
                  </div>
                </div>
                <ExampleSource id={example.source_feedback_id} />
                {can("datasets.write") && dataset.example_count > 1 ? (
                  <div>
                    <ConfirmButton
                      label="Remove"
                      title="Remove the example?"
                      confirmLabel="Create a version without it"
                      act={() =>
                        apiClient.datasets.create({
                          params: { id: dataset.task_id },
                          payload: { base_dataset_id: dataset.id, remove: [example.id] }
                        })
                      }
                      onDone={(created) => {
                        refresh(datasetsAtom(dataset.task_id))
                        refresh(taskAtom(dataset.task_id))
                        showToast(`Version ${created.version} created`)
                        navigate(`/datasets/${created.id}`)
                      }}
                    >
                      Creates the next version without this example. Earlier versions and the live release
                      keep it.
                    </ConfirmButton>
                  </div>
                ) : null}
              </li>
            ))}
          </ul>
        </>
      )}
    </PagedList>
  )
}

const Changes = ({ base, dataset }: { readonly dataset: DatasetModel; readonly base: DatasetId }) => {
  const [since, setSince] = useState(base)
  return (
    <div className="stack">
      <PagedList atom={datasetsAtom(dataset.task_id)}>
        {(versions) => (
          <InlineSelect
            label="Compare with"
            value={since}
            onChange={setSince}
            options={versions
              .filter(({ version }) => version < dataset.version)
              .map(({ id, version }) => [id, `Version ${version}`])}
          />
        )}
      </PagedList>
      <DatasetDifferences id={dataset.id} since={since} />
    </div>
  )
}
