import type { PlaygroundAnswer } from "../../../api/console/Playground.ts"
import { Badge } from "../../ui/Badge.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** One side's answer, its cost, and its sources. */
export const PlaygroundResult = ({ result }: { readonly result: PlaygroundAnswer }) => {
  const { answer, calls, cost, dataset_version, duration_ms, examples, failure, prompt, provider, usage } =
    result
  return (
    <>
      <div className="change-head">
        <h3>{provider.kind === "examples" ? "Nearest example" : <UntrustedText text={provider.model} />}</h3>
        <span className="quiet small">
          {dataset_version === null ? "no dataset" : `dataset version ${dataset_version}`}
        </span>
      </div>
      {failure === null ? (
        <JsonTree label="Answer" value={answer ?? undefined} />
      ) : (
        <p>
          <Badge tone="bad">No answer</Badge> <UntrustedText text={failure} />
        </p>
      )}
      <dl className="playground-figures">
        <div>
          <dt>Duration</dt>
          <dd>{duration_ms.toLocaleString("en")} ms</dd>
        </div>
        <div>
          <dt>Tokens</dt>
          <dd>
            {tokens(usage.input_tokens)} in, {tokens(usage.output_tokens)} out
          </dd>
        </div>
        <div>
          <dt>Cost</dt>
          <dd>
            {cost === null
              ? "unknown"
              : cost.toLocaleString("en", { maximumSignificantDigits: 3, maximumFractionDigits: 6 })}
          </dd>
        </div>
        {calls > 1 ? (
          <div>
            <dt>Calls</dt>
            <dd>{calls}, with retries and repairs</dd>
          </div>
        ) : null}
      </dl>
      {examples.length === 0 ? (
        <p className="quiet small">No examples recalled.</p>
      ) : (
        <details>
          <summary>
            {examples.length === 1 ? "1 recalled example" : `${examples.length} recalled examples`}
          </summary>
          <ol className="playground-examples">
            {examples.map(({ content, id, score }) => (
              <li key={id}>
                <p className="quiet small">
                  Similarity {score.toLocaleString("en", { maximumFractionDigits: 2 })} ·{" "}
                  <span className="id">{id}</span>
                </p>
                {content === null ? (
                  <p className="quiet small">Its content cannot be shown.</p>
                ) : (
                  <JsonTree
                    label={`Example ${id}`}
                    value={{ input: content.input, answer: content.answer }}
                  />
                )}
              </li>
            ))}
          </ol>
        </details>
      )}
      {prompt === null ? null : (
        <details>
          <summary>Prompt</summary>
          <ol className="playground-examples">
            {prompt.map(({ omitted, role, text }, index) => (
              <li key={index}>
                <p className="quiet small">{role}</p>
                <p className="prose">
                  <UntrustedText text={text} />
                </p>
                {omitted === 0 ? null : (
                  <p className="quiet small">{omitted.toLocaleString("en")} more characters</p>
                )}
              </li>
            ))}
          </ol>
        </details>
      )}
    </>
  )
}

const tokens = (count: number | null): string => (count === null ? "unknown" : count.toLocaleString("en"))
