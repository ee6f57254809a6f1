#include <array>

#include "rules/context.h"

/// The written-out list of families and rules. A new rule is one entry here, a function in its family's file and cases
/// in testdata/<rule id>/.
namespace autotriton::rules {
namespace {

constexpr auto kJitPresence = std::to_array<RuleInfo>({
    {.id = "no-jit-kernel",
     .level = Level::kReject,
     .sentence = "No function of the answer is under triton.jit.",
     .reason = "Without a kernel nothing in the answer is Triton.",
     .remedy = "Write the computation as a function decorated with @triton.jit and launch it."},
});

constexpr auto kLaunches = std::to_array<RuleInfo>({
    {.id = "kernel-not-launched",
     .level = Level::kReject,
     .sentence = "There are kernels, but nothing the entry point runs launches one.",
     .reason = "A kernel that is only defined is a decoy: the result comes from elsewhere.",
     .remedy = "Launch the kernel with kernel[grid](…) in forward, or in a function that forward calls."},
});

constexpr auto kTorchCompute = std::to_array<RuleInfo>({
    {.id = "torch-compute",
     .level = Level::kReject,
     .sentence = "PyTorch (or numpy) computes on the path from the entry point.",
     .reason = "The task is to replace PyTorch's computation; allocating, viewing, moving and casting are free.",
     .remedy = "Do the arithmetic, product, reduction or module call inside a kernel. Modules may stay as holders of "
               "parameters."},
    {.id = "partial-reduction",
     .level = Level::kNote,
     .sentence = "A .sum() or .mean() of PyTorch stands on the path.",
     .reason = "As the last step over per-block results of a kernel it is glue; as the computation itself it is not. "
               "The run decides.",
     .remedy = "Reduce inside the kernel, with a second launch or an atomic."},
});

constexpr auto kDynamicCode = std::to_array<RuleInfo>({
    {.id = "dynamic-code",
     .level = Level::kReject,
     .sentence = "Code or names are made at run time.",
     .reason = "What exec, eval, computed attribute names or decoded text will do cannot be read from the source.",
     .remedy = "Write the code out; use plain names and attributes."},
});

constexpr auto kImports = std::to_array<RuleInfo>({
    {.id = "import-not-allowed",
     .level = Level::kReject,
     .sentence = "A module outside the list is imported.",
     .reason = "Other kernel libraries, native code and system modules are not what the task asks for. Harmless ones "
               "are only noted.",
     .remedy = "Use torch, triton and plain modules of Python such as math and typing."},
});

constexpr auto kReboundNames = std::to_array<RuleInfo>({
    {.id = "name-rebound",
     .level = Level::kReject,
     .sentence = "torch, triton, tl or jit is bound to something else.",
     .reason = "A local `tl` or `jit` makes code look like Triton that is not.",
     .remedy = "Choose another name for your variable, parameter or function."},
});

constexpr auto kJitBodies = std::to_array<RuleInfo>({
    {.id = "jit-body-not-triton",
     .level = Level::kReject,
     .sentence = "A jit body holds what Triton cannot compile.",
     .reason = "On a machine without a GPU the body runs as Python, where torch, numpy or files would work; on a GPU "
               "it would not compile. isinstance, type and hasattr answer differently in the two.",
     .remedy = "Use tl operations, other jit functions, constants and plain arithmetic."},
    {.id = "jit-body-no-load",
     .level = Level::kReject,
     .sentence = "No launched kernel loads from an argument.",
     .reason =
         "A kernel that is handed inputs and reads none computes nothing from them; one that only fills a buffer may.",
     .remedy = "Pass the inputs to the kernel and tl.load them."},
    {.id = "jit-body-no-store",
     .level = Level::kReject,
     .sentence = "No launched kernel stores to an argument.",
     .reason = "A kernel that writes nothing did not make the result.",
     .remedy = "Allocate the output, pass it to the kernel and tl.store the result."},
});

constexpr auto kSurroundings = std::to_array<RuleInfo>({
    {.id = "tampering",
     .level = Level::kReject,
     .sentence = "Something of torch, triton or Python is replaced, or a global flag is set.",
     .reason = "Patched functions, hooks, tensor subclasses, torch's private parts and backend flags change what is "
               "measured.",
     .remedy = "Leave other modules as they are; choose precision inside the kernel."},
    {.id = "sniffing",
     .level = Level::kReject,
     .sentence = "The answer looks at frames, modules, the environment or the evaluator, reads a tensor as text, or "
                 "lets a branch "
                 "follow the clock, the mode of gradients, an address or a count of its calls.",
     .reason = "A result may depend on the inputs and parameters only, and their values belong to the kernel.",
     .remedy = "Remove it; compute from the inputs."},
    {.id = "side-effects",
     .level = Level::kReject,
     .sentence = "Threads, streams, graphs, processes, files, sockets or the system are used.",
     .reason = "An answer computes its outputs and does nothing else. Reading the clock is only suspicious.",
     .remedy = "Remove it; launch on the current stream."},
    {.id = "device-read",
     .level = Level::kNote,
     .sentence = "The device is read (is_cuda, device.type, its properties).",
     .reason = "Checks and launch parameters need it; a branch that reaches another result is found by the run.",
     .remedy = "Nothing to mend, as long as the result is the same."},
});

constexpr auto kOutputs = std::to_array<RuleInfo>({
    {.id = "output-not-from-kernel",
     .level = Level::kReject,
     .sentence = "Nothing that the entry point returns can come from memory that a launched kernel stores to.",
     .reason = "A launch whose result is dropped is a decoy: what is returned was made elsewhere.",
     .remedy = "Return the buffer that the kernel fills, or a view of it."},
});

constexpr auto kFallbacks = std::to_array<RuleInfo>({
    {.id = "fallback",
     .level = Level::kReject,
     .sentence = "Where a launch fails, or the machine is another one, something else takes the kernel's place.",
     .reason =
         "An answer that can do without its kernel shows nothing about it. Passing over a failed launch in silence "
         "is suspicious only; another kernel, an error or an early return for empty inputs is none.",
     .remedy = "Let exceptions through; raise an error where the kernel cannot run."},
});

constexpr auto kResultCaches = std::to_array<RuleInfo>({
    {.id = "result-cache",
     .level = Level::kReject,
     .sentence = "A result of an earlier call can be returned without a launch.",
     .reason = "Pointers, identities and shapes of two inputs agree where their values do not. Packed weights, launch "
               "settings and buffers that each call fills anew may be kept; a key made of addresses is suspicious.",
     .remedy = "Launch the kernel in every call."},
});

constexpr auto kPrecision = std::to_array<RuleInfo>({
    {.id = "lowered-precision",
     .level = Level::kNote,
     .sentence = "Values are rounded to fewer bits before a product or a sum.",
     .reason = "Right where the task is in half precision, a cheat where it is in single; the run measures the error.",
     .remedy = "Keep the inputs' dtype; use input_precision=\"ieee\" for fp32."},
});

constexpr auto kDeferral = std::to_array<RuleInfo>({
    {.id = "deferred-work",
     .level = Level::kReject,
     .sentence = "Work is put off, or handed to another compiler (torch.compile, torch.jit).",
     .reason =
         "What runs after the return is not measured, and code that a compiler writes is not the answer's. Streams, "
         "graphs and threads are refused as side-effects, tensor subclasses as tampering.",
     .remedy = "Do the work in kernels of your own, before the entry point returns."},
});

constexpr auto kText = std::to_array<RuleInfo>({
    {.id = "misleading-text",
     .level = Level::kReject,
     .sentence = "The text shows a reader something else than Python runs, or speaks to whoever judges it.",
     .reason = "Letters that look like others, characters that hide or turn text and orders to a judge serve only to "
               "deceive. Invisible characters, very long lines and encoded data are suspicious.",
     .remedy = "Write plain names and comments about the code."},
});

constexpr auto kFamilies = std::to_array<Family>({
    {.name = "jit presence", .rules = kJitPresence, .check = check_jit_presence},
    {.name = "launches", .rules = kLaunches, .check = check_launches},
    {.name = "torch compute", .rules = kTorchCompute, .check = check_torch_compute},
    {.name = "dynamic code", .rules = kDynamicCode, .check = check_dynamic_code},
    {.name = "imports", .rules = kImports, .check = check_imports},
    {.name = "rebound names", .rules = kReboundNames, .check = check_rebound_names},
    {.name = "jit bodies", .rules = kJitBodies, .check = check_jit_bodies},
    {.name = "surroundings", .rules = kSurroundings, .check = check_surroundings},
    {.name = "outputs", .rules = kOutputs, .check = check_outputs},
    {.name = "fallbacks", .rules = kFallbacks, .check = check_fallbacks},
    {.name = "result caches", .rules = kResultCaches, .check = check_result_caches},
    {.name = "precision", .rules = kPrecision, .check = check_precision},
    {.name = "deferral", .rules = kDeferral, .check = check_deferral},
    {.name = "text", .rules = kText, .check = check_text},
});

}  // namespace

std::span<const Family> all_families() { return kFamilies; }

}  // namespace autotriton::rules
