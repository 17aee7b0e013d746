/** Services for language models, speech, pictures and vector search; columns as in {@link parseKinds}. */
export const modelKinds = `
Anthropic | sk-ant-api03- sk-ant-admin01- sk-ant-oat01- sk-ant-ort01- | {U93}AA
Anthropic | sk-ant-sid01- sk-ant-sid02- sk-ant- | {U40-120}
OpenAI | sk-proj- sk-svcacct- sk-service- sk-admin- sk-None- | {U48-164}
OpenAI | sess- | {A40}
OpenRouter | sk-or-v1- | {h64}
OpenRouter | sk-or- | {U40-64}
OpenAI, DeepSeek, Moonshot and compatible | sk- | {h32} {A20}T3BlbkFJ{A20} {A32-64} {U40-128}
Langfuse | sk-lf- | {uuid}
LangSmith | lsv2_pt_ lsv2_sk_ | {h32}_{h10} {h32-64}
LangSmith | ls__ | {h32}
Tavily | tvly-dev- tvly-prod- tvly- | {U32}
Hugging Face | hf_ api_org_ | {A34}
Hugging Face | hf_oauth_ | {A34-100}
Groq | gsk_ | {A52}
xAI | xai- xai-token- | {W80}
Replicate | r8_ | {U37}
Perplexity | pplx- | {A48}
NVIDIA | nvapi- | {U64}
Fireworks | fw_ | {A22-24}
Together | tgp_v1_ | {U43}
Cerebras | csk- | {n48}
Google AI Studio | AQ.Ab | {U40-90}
Pinecone | pcsk_ | {A5-6}_{A63}
Voyage | pa- | {U43}
Jina | jina_ | {h32}{U28} {U50-64}
ElevenLabs | sk_ | {h48}
Weights & Biases | wandb_v1_ local-wandb_v1_ | {W77}
Braintrust | bt-st- sk-bt- | {A48}
Cursor | key_ crsr_ | {h64}
Devin | apk_user_ apk_ | {B80-160}{P0-2}
Devin | cog_ | {s52}
RunPod | rpa_ | {A46}
Modal | as- ak- | {A22}
Brave Search | BSA | {U27}
Firecrawl | fc- | {h32}
Vercel | vck_ vca_ vcr_ vci_ vcp_ | {A56}
Vercel | vercel_blob_rw_ | {A16}_{A32}
Humanloop | hl_sk_ | {A48}
Helicone | sk-helicone- pk-helicone- sk-helicone-eu- | {n7}-{n7}-{n7}-{n7}
LiteLLM | sk-litellm- | {U22-64}
PhotoRoom | sk_pr_ sandbox_sk_pr_ | {W40}
Sourcegraph | sgp_ | {x16}_{x40} local_{x40} {x40}
Segment | sgp_ | {A64}
Sourcegraph Cody | slk_ sgd_ sgamp_ | {h64}
E2B | e2b_ | {h40}
Logfire | pylf_v1_us_ pylf_v1_eu_ pylf_v2_us_ pylf_v2_eu_ | {A43}
LlamaCloud | llx- | {A48}
`
