/** Code hosts, package registries, build and monitoring services, and other tools of developers; columns as in {@link parseKinds}. */
export const developerKinds = `
Countersign | csk_ | {A16}_{A30-49}
Countersign | cft_ | eyJ{U30-4096}.{U1-128}.{U1-128} eyJ{U30-4096}.{U1-128} eyJ{U30-4096}
GitHub | ghs_ ghu_ | {d1-10}_eyJ{U30-300}.{U30-2000}.{U40-700} eyJ{U30-300}.{U30-2000}.{U40-700}
GitHub | ghp_ gho_ ghu_ ghs_ ghr_ | {A36-76}
GitHub | github_pat_ | {A22}_{A59} {W82}
GitLab | glpat- gldt- glrt- glrtr- glft- glffct- glsoat- glwt- gliat- | {U20} {U27-300}.{n2}.{n9} {U27-300}.{n9}
GitLab | glptt- | {h40}
GitLab | glcbt- | {A1-5}_{U20} {U20-300}
GitLab | glimt- | {U25}
GitLab | glagent- | {U50}
GitLab | gloas- | {U64}
GitLab | glrt-t1_ glrt-t2_ glrt-t3_ | {U20} {U27-300}.{n2}.{n9}
GitLab | GR1348941 | {U20}
Bitbucket | ATBB | {M32}
Bitbucket | BBDC- | {B44}
Atlassian | ATATT3 ATCTT3 ATSTT3 ATCFT3 | {Q180-240}
npm | npm_ npms_ | {A36}
PyPI | pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw pypi- | {U70-200}
RubyGems | rubygems_ | {h48}
NuGet | oy2 | {n43}
crates.io | cio | {A32}
Clojars | CLOJARS_ | {n60}
Packagist | packagist_uut_ packagist_ort_ packagist_ack_ conductor_uut_ | {h60-68}
Packagist | packagist_ | {A40}
JSR | jsrp_ jsrd_ | {A32-40}
Docker Hub | dckr_pat_ | {U27}
Docker Hub | dckr_oat_ | {U32}
Cloudsmith | csa_ | {A40}
Open VSX | ovsxat_ ovsxp_ | {uuid} {D40}
Octopus Deploy | API- | {N25-29}
CircleCI | CCIPAT_ CCIPRJ_ | {A22}_{x40}
Buildkite | bkua_ bkaa_ bkaj_ bkar_ bkct_ bkpt_ bkpat_ bkps_ | {n40} {U40-64}
Harness | pat. sat. | {U22}.{A24}.{A20}
Bitrise | bitpat_ bitwat_ | {A60}
Mergify | mergify_application_key_ | {U43-64}
SonarQube | squ_ sqp_ sqa_ sqb_ | {h40}
SonarCloud | sqco_ | {A59}
Snyk | snyk_uat. snyk_sat. | {h8}.eyJ{U40-300}.{U40-200} {h8}.{U80-400}
StackHawk | hawk. | {U20}.{U20}
Socket | sktsec_ sktapi_ | {U44-48}
Aikido | AIK_CI_ AIK_SECRET_ | {A64} {A32}
Dependency-Track | odt_ alpine_ | {A32-40}
Infracost | ico- | {A32}
Scalingo | tk-us- | {U48}
Linear | lin_api_ | {A40}
Linear | lin_oauth_ lin_wh_ | {h64} {A32-40}
Notion | ntn_ | {d11}{A35} {A46}
Notion | secret_ | {A43}
Asana | 0/ 1/ 2/ | {d16}/{d16}:{h32} {d16}:{h32}
ClickUp | pk_ | {d5-9}_{N32}
Figma | figd_ figp_ figo_ figu_ figur_ figor_ figuh_ figoh_ | {M40-54}
Postman | PMAK- | {h24}-{h34}
Postman | PMAT- | {N26}
Airtable | pat | {A14}.{h64}
Canva | cnvca | {U51}
Adobe | p8e- p8- | {U32}
Contentful | CFPAT- | {U43}
Typeform | tfp_ | {D59}
ReadMe | rdme_ | {n70}
Apify | apify_api_ apify_ui_ apify_proxy_ | {A36}
Adafruit IO | aio_ | {A28}
Ubidots | BBFF- BBUS- | {A30}
New Relic | NRAK- NRAA- NRRA- | {N27}
New Relic | NRII- NRIQ- NRAP- NRSP- | {U25-32}
New Relic | NRJS- NRBR- | {h19}
New Relic | - | {h32-36}FFFFNRAL {h32-36}NRAL eu01xx{h26-30}FFFFNRAL AA{h40}-NRMA eu01xx{h36}-NRMA
Dynatrace | dt0c01. dt0s01. dt0s02. dt0s03. dt0s04. dt0s06. dt0s08. dt0s16. dt0a01. | {A24}.{A64} {U8}.{A64}
Grafana | glsa_ | {A32}_{x8} {W41}
Grafana | glc_ | {B32-400}{P0-2}_{B8-64} {B32-400}{P0-2}
Grafana | eyJrIjoi | {B70-400}{P0-3}
Sentry | sntrys_ | {B60-400}{P0-2}_{B43} {B60-400}{P0-2}
Sentry | sntryu_ sntrya_ sntryi_ | {h64}
Honeycomb | hcaik_ hcxik_ hcbik_ hcalk_ hcamk_ | {A58}
Rootly | rootly_ | {h64}
PagerDuty | u+ | {U18}
Axiom | xaat- xapt- xait- | {uuid}
PostHog | phx_ phs_ phr_ | {W43-48}
LaunchDarkly | sdk- api- mob- rel- | {uuid}
ConfigCat | configcat-sdk-1/ configcat-proxy/ | {U22}/{U22}
DevCycle | dvc_server_ dvc_mobile_ | {W20-64}
Statsig | secret- console- | {A43}
FullStory | na1. eu1. | {B100}
Clerk, Highnote, WorkOS | sk_live_ sk_test_ | {U40-110}{P0-2}
WorkOS | sk_a2V5Xz sk_example_ | {B56-100}{P0-2}
Apideck | sk_live_ | {U93}
Stytch | secret-test- secret-live- | {M36-44}
Descope | K2 | {A70-110}
Okta | 00 | {A1}{U39}
Authress | sc_ ext_ scauth_ authress_ | {n5-30}.{n4-6}.acc-{n10-32}.{B30-120}{P0-2} {n5-30}.{n4-6}.acc_{n10-32}.{B30-120}{P0-2}
Unkey | unkey_ | {A22-32}
Zuplo | zpka_ | {n32}_{h8}
Val Town | vtwn_ | {A28}
WakaTime | waka_ | {uuid}
WakaTime | waka_tok_ waka_sec_ | {A60-80}
Ionic | ion_ | {A42}
Nightfall | NF- | {A32}
Spectral | spu- sps- | {h32}
TruffleHog Enterprise | thog-key- | {h16}
TruffleHog Enterprise | thog-secret- | {h32}
MaxMind | mmk_ | {A32}
MaxMind | - | {A6}_{A29}_mmk
SettleMint | sm_pat_ sm_aat_ sm_sat_ | {A16}
Intra 42 | s-s4t2ud- s-s4t2af- | {h64}
Frame.io | fio-u- | {M64}
Beamer | b_ | {M44}
Mapbox | sk. tk. | eyJ{U60-140}.{U22}
reCAPTCHA | 6Lc 6Ld 6Le 6Lf | {U5}AAAAA{U27}
Voiceflow | VF. VF.DM. VF.WS. VF.PM. | {x24}.{A16}
Portainer | ptr_ | {B43}{P0-1}
Lichess | lip_ lio_ | {A20}
Thunderstore | tss_ | {A38}
Persona | persona_production_ persona_sandbox_ | {uuid}
Proof | prf_cli_ prf_ | {U24-64}
Samsara | samsara_api_ | {A30}
Databento | db- | {A29}
OneSignal | os_v2_app_ os_v2_org_ | {s103}
Onfido | api_live. api_live_ca. api_live_us. api_sandbox. api_sandbox_ca. api_sandbox_us. | {U11}.{U32} {U40-64}
Workato | wrkaus- wrkaeu- wrkajp- wrkasg- wrkaau- wrka- | eyJ{U40-300}.{U60-700}.{U43-700}
Close | api_ | {A22}.{A22} {I45}
Rainforest | apikey_ | {A36-64}
Robinhood | rh-api- | {uuid}
Klaviyo | pk_ | {A6}_{h34} {h34}
dfuse | web_ | {n32}
BestTime | pri_ | {h32}
Flexport | shltm_ | {U40}
Fleetbase | flb_live_ | {A20}
Bannerbear | bb_pr_ bb_ma_ | {h30}
Scrapfly | scp-live- scp-test- | {h32}
Teamwork | tkn.v1_ | {B60-120}{P0-2}
Mailsac | k_ | {A36-44}
Trello | ATTA | {h64}{H8}
Salesforce | 3MVG9 5AEP861 | {D80-251}
Salesforce | 00D | {A12}!{I80-120}
Zoho | 1000. | {h32}.{h32}
JumpCloud | jca_ | {A36}
Lob | live_ test_ | {h35} {A27-40}
GoCardless | live_ | {M40}
Checkout.com | sk_ sk_sbox_ | {uuid} {n27}
TeamCity | eyJ0eXAiOiAiVENWMiJ9. | {D60-120}
Depot | depot_org_ depot_project_ depot_user_ | {A64}
Trigger.dev | tr_dev_ tr_prod_ tr_pat_ tr_stg_ | {A20-40}
Inngest | signkey-prod- signkey-test- signkey-branch- | {h64}
Resend | re_ | {A8}_{A24}
Cal.com | cal_live_ cal_test_ cal_ | {h32}
Dub | dub_ | {A24}
Liveblocks | sk_dev_ sk_prod_ | {U60-72}
Locationiq | pk. | {h32}
Finage | API_KEY | {N32}
Sanity | sk | {A80-180}
TrueNAS | - | {d1-3}-{A64}
PuTTY, minisign | RWRTY0Iy | {B160-220}{P0-2}
LogicMonitor | lmb_ | {B120-170}{P0-2}
`
