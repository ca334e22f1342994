# What a simulated kubelet has to do next for a pod. Every stage selects on the
# answer of `next`, so that never two of them match at once.

# A container's id is sim://<pod>.<container>.<restarts>/<image it runs>: with
# same-digest images status.image names another tag than the one that runs.
def runs: (.containerID // "") | sub("^sim://[^/]*/"; "");

def sidecars: [(.spec.initContainers // [])[] | select(.restartPolicy == "Always")];
def containers: .spec.containers + sidecars;

# The status of the container of that name.
def status($pod; $name):
  [(($pod.status.containerStatuses // []) + ($pod.status.initContainerStatuses // []))[] | select(.name == $name)] | first // {};

def statuses: . as $pod | [containers[] | status($pod; .name)];

# Whether the container already is what its image makes of it.
def settled($pod): . as $c | status($pod; .name)
  | if ($c.image | contains("pull-fails"))
    then (.state.waiting.reason == "ErrImagePull") and (.state.waiting.message | endswith("\"" + $c.image + "\""))
    else (runs == $c.image) and (.state.waiting.reason != "ErrImagePull") end;

def unsettled: . as $pod | [containers[] | select(settled($pod) | not)];

# Milliseconds that follow a word in the image.
def ms($word): .image
  | if contains($word)
    then [match($word + "-([0-9]+)(ms|s)") | .captures | (.[0].string | tonumber) * (if .[1].string == "s" then 1000 else 1 end)] | first // 5000
    else 0 end;

def slowest($word): map(ms($word)) | max // 0;

def condition($type): [(.status.conditions // [])[] | select(.type == $type) | .status] | first // "Unknown";

def truth: if . then "True" else "False" end;

def containers_ready: statuses | all(.[]; .ready == true);
def gates_true: . as $pod | all((.spec.readinessGates // [])[]; .conditionType as $t | ($pod | condition($t)) == "True");

# Resources are followed without a restart.
def resources_due: . as $pod | any(containers[];
  (.resources // {} | {requests, limits}) != (status($pod; .name).resources // {} | {requests, limits}));

def report_due:
  (.status.observedGeneration != .metadata.generation)
  or (condition("ContainersReady") != (containers_ready | truth))
  or (condition("Ready") != (containers_ready and gates_true | truth))
  or resources_due;

def crashed: [statuses[] | select(.state.waiting.reason == "CrashLoopBackOff")];
def starting: . as $pod | [containers[] | select(status($pod; .name) | .state.running and (.started | not))];
def completes: (.spec.restartPolicy != "Always") and (any(.spec.containers[]; .image | contains("runs-forever")) | not);
def ended: .status.phase == "Succeeded" or .status.phase == "Failed";

def next:
  if .metadata.deletionTimestamp then
    (if ((.metadata.finalizers // []) | length) == 0 then "delete" elif ended then "none" else "terminate" end)
  elif ended then "none"
  elif ((.status.containerStatuses // []) | length) == 0 then "create"
  elif report_due then "report"
  elif (unsettled | length) > 0 then "update"
  elif (crashed | length) > 0 then "crash"
  elif (starting | length) > 0 then "started"
  elif completes then "complete"
  else "idle" end;

# RFC3339 time in so many seconds from the time in the input.
def plus($seconds): sub("\\.[0-9]+Z$"; "Z") | fromdate + $seconds | todate;
