"""Questions asked as files: the Batch API of OpenAI-compatible services, and `vllm run-batch`."""
